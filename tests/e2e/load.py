"""A producer that works while its store is backed up, lost or failed over, and what must be true afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.nodes import read_effects
from tests.support.processes import ROOT, until
from tests.support.servers import HOST, find_postgres
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.task import NewTask, TaskId
from windlass.errors import StoreError
from windlass.stores.protocol import Store

EPOCH = 40
"""The bits of a fence below its epoch."""
GUIDE = ROOT / "docs" / "guides" / "stores.md"
HELD = "held"
"""A queue that is paused when the test begins, so that its tasks wait while the backup is made."""
RESTS_SECONDS = 0.005


class Producer:
    """Submits one task after another until the end of the `with` block, also when the store fails meanwhile."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[TaskId] = []
        """In the order of their commits."""
        self.times: list[float] = []
        """When each of them was acknowledged, on the monotonic clock."""
        self.outage: int | None = None
        """How many were acknowledged before the first submit that failed."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def await_more(self, number: int) -> None:
        """Wait until this many more tasks were acknowledged."""
        wanted = len(self.acknowledged) + number
        until(lambda: len(self.acknowledged) >= wanted, f"{number} more tasks are acknowledged")

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(RESTS_SECONDS):
            number += 1
            try:
                [receipt] = self._store.submit([shop_task("add", key=f"k{number}", a=number)])
            except StoreError:
                if self.outage is None:
                    self.outage = len(self.acknowledged)
                self._stop.wait(0.1)
            else:
                self.acknowledged.append(receipt.id)
                self.times.append(time.monotonic())


def shop_task(handler: str, *, key: str | None = None, queue: str = "default", **args: Any) -> NewTask:
    """Return a task of the nodes' app, for a store that the app does not use."""
    return NewTask(handler=f"tests.e2e.shop.{handler}", args=args, key=key, queue=queue)


def hold(store: Store, number: int = 20) -> list[TaskId]:
    """Submit tasks that wait until `let_go`: runnable, whatever a node does meanwhile."""
    store.configure(Queue(name=HELD, paused=True))
    return [each.id for each in store.submit([shop_task("add", queue=HELD, a=number) for number in range(number)])]


def let_go(store: Store) -> None:
    store.configure(Queue(name=HELD))


def find_existing(store: Store, ids: Sequence[TaskId]) -> list[bool]:
    """Return which of these tasks the store has."""
    return [task is not None for task in store.get(ids)]


def assert_ended_once(store: Store, ids: Sequence[TaskId]) -> None:
    """Wait until these tasks have ended. Each must have completed, in exactly one attempt."""
    until(lambda: all(task is not None and task.state.final for task in store.get(ids)), "all tasks have ended")
    assert {task.state for task in store.get(ids) if task is not None} == {State.COMPLETED}
    ends = {id: [attempt.state for attempt in store.attempts(id) if attempt.state.final] for id in ids}
    assert [id for id, states in ends.items() if states != [State.COMPLETED]] == []


def assert_fences_grow(effects: Path, rerun: Sequence[TaskId] = ()) -> None:
    """Check that every run of a task had a greater fence. Those of `rerun` ran in the first epoch and in the next."""
    fences: dict[str, list[int]] = {}
    for effect in read_effects(effects):
        if effect["what"] in ("add", "began"):
            fences.setdefault(effect["task"], []).append(effect["fence"])
    assert {id: seen for id, seen in fences.items() if seen != sorted(set(seen))} == {}
    epochs = {id: {fence >> EPOCH for fence in fences[str(id)]} for id in rerun}
    assert {id: seen for id, seen in epochs.items() if seen != {0, 1}} == {}


def run_commands(name: str, folder: Path, **variables: str) -> None:
    """Run a block of commands of the guide in a folder. The comment on its first line is its name."""
    blocks = re.findall(r"^ *```sh\n *# (.+)\n((?:.*\n)*?) *```$", GUIDE.read_text(), re.MULTILINE)
    [commands] = [text for title, text in blocks if title == name]
    commands = re.sub(r"\bdb2?\.internal\b", HOST, commands)
    programs = [str(Path(sys.executable).parent), str(find_postgres()), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(programs), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
