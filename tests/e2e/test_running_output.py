"""The output of a task can be read while it runs, and is kept when its worker or its node dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e import shop
from tests.server.running import running
from tests.support.nodes import PATIENCE, NodeProcess, as_given, await_effect
from tests.support.processes import until
from windlass.client.handle import Handle
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow


def await_output(handle: Handle[object], text: str = "before the gate") -> None:
    until(lambda: any(text in log for log in handle.logs()), f"{text!r} can be read")


@contextmanager
def follow(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `windlass tasks logs -f`, and end it with the test."""
    command = [sys.executable, "-m", "windlass", "tasks", "logs", "-f", "--store", as_given(url), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_output_is_visible_everywhere_before_the_attempt_ends(
    node: Callable[..., NodeProcess], url: str, effects: Path
) -> None:
    node("-n", "1")
    handle = shop.speak_and_wait.enqueue()
    await_output(handle)

    assert handle.state is State.LEASED
    [log] = shop.app.store.logs(handle.id)
    first, second = log.text.splitlines()
    assert (log.running, first) == (True, "before the gate")
    assert second.endswith("still there")
    with running(shop.app.store) as address:
        [shown] = httpx.get(f"{address}/api/v1/tasks/{handle.id}/logs").json()
    assert (shown["running"], shown["text"]) == (True, log.text)
    with follow(url, str(handle.id)) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(3)]
        effects.with_name("gate").touch()
        rest = process.stdout.read()

    assert seen == [f"  output 1 (fence {log.fence}, still running):\n", f"    {first}\n", f"    {second}\n"]
    assert rest == "    after the gate\n"
    assert handle.result(PATIENCE) == "ended"
    assert handle.logs() == [f"{log.text}after the gate\n"]


def test_the_output_of_async_handlers_on_one_event_loop_is_visible_while_they_run(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1")
    handles = [shop.aspeak_and_wait.enqueue() for _ in range(3)]

    for handle in handles:
        await_output(handle)
    effects.with_name("gate").touch()

    assert [handle.wait(PATIENCE) for handle in handles] == [State.COMPLETED] * 3
    assert [handle.logs() for handle in handles] == [["before the gate\n"]] * 3


def test_the_output_of_a_killed_worker_is_kept_as_that_of_its_attempt(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1")
    handle = shop.speak_and_wait.using(max_crashes=0).enqueue()
    [began] = await_effect(effects, "began")
    await_output(handle)

    os.kill(began["pid"], signal.SIGKILL)

    assert handle.wait(PATIENCE) is State.FAILED
    [log], [attempt] = shop.app.store.logs(handle.id), shop.app.store.attempts(handle.id)
    assert (log.fence, log.running) == (attempt.fence, False)
    assert log.text.startswith("before the gate\n")


def test_the_output_of_a_task_that_overran_its_timeout_is_kept(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1")
    handle = shop.speak_and_wait.using(timeout=3).enqueue()

    assert handle.wait(PATIENCE) is State.FAILED
    [log] = handle.logs()
    assert log.startswith("before the gate\n")


def test_the_output_of_a_killed_node_is_kept_and_the_next_attempt_has_its_own(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "1", "--session-ttl", "2s")
    handle = shop.speak_and_wait.enqueue()
    await_output(handle)

    first.kill()
    node("-n", "1", "--session-ttl", "2s")
    effects.with_name("gate").touch()

    assert handle.result(PATIENCE) == "ended"
    lost, ended = shop.app.store.logs(handle.id)
    assert lost.text.startswith("before the gate\n")
    assert "after the gate" not in lost.text
    assert ended.text.endswith("after the gate\n")
    assert (lost.running, ended.running) == (False, False)
