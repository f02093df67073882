"""Settings that change while a node runs: a bad file changes nothing and is named, a good one is followed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow

BAD = [
    ("pools: {mail: {size: many}}", "size"),
    ("pools: {mail: {size: -3}}", "pools.mail.size=-3"),
    ("pools: {mail: {scale: {wait: soon}}}", "pools.mail.scale.wait='soon'"),
    ("pools: {mail: {scale: {wiat: 3s}}}", "wiat"),
    ("pools: {post: {size: 2}}", "pools.mail, pools.post cannot change"),
    ("pools: {mail: {size: 2}}\nsession_ttl: 9s", "session_ttl cannot change"),
    ("pools: [", "settings.yaml"),
    ("\xff\xfe", "settings.yaml"),
]
"""Each with what its refusal names."""


def write(path: Path, text: str) -> None:
    """Put a whole new file in its place, as editors do."""
    other = path.with_suffix(".new")
    other.write_bytes(text.encode("latin-1"))
    other.replace(path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    write(path, "pools: {mail: {size: 1}}")
    return path


def test_a_bad_file_changes_nothing_and_says_why_and_a_good_one_is_followed(
    node: Callable[..., NodeProcess], config: Path
) -> None:
    started = node("--config", str(config))
    [before] = started.workers()

    for number, (text, named) in enumerate(BAD, start=1):
        write(config, text)
        refused = started.await_event("SettingsRefused", number)
        assert named in refused[-1]["why"], text
    assert shop.add.using(queue="mail").enqueue(1).result(PATIENCE) == 2
    assert started.workers() == [before], "it works on with what it had"
    assert started.events("PoolResized") == []

    write(config, "pools: {mail: {size: 3, queues: [mail, news]}}")
    [reloaded] = started.await_event("SettingsReloaded")
    until(lambda: len(started.workers()) == 3, "the good one is followed")

    assert any("pools.mail.size: 1 → 3" in change for change in reloaded["changes"])
    assert shop.add.using(queue="news").enqueue(2).result(PATIENCE) == 3, "the new queue is served"
    assert len(started.events("SettingsRefused")) == len(BAD)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_hangup_has_the_file_read_again_though_it_looks_the_same(
    node: Callable[..., NodeProcess], config: Path
) -> None:
    started = node("--config", str(config))
    stamp = config.stat()

    config.write_text("pools: {mail: {size: 2}}")
    os.utime(config, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    started.send(signal.SIGHUP)

    until(lambda: len(started.workers()) == 2, "it was read again")
    assert started.process.poll() is None
    config.write_text("pools: {mail: {size: x}}")
    started.send(signal.SIGHUP)
    assert "size" in started.await_event("SettingsRefused")[0]["why"]
    assert shop.add.using(queue="mail").enqueue(1).result(PATIENCE) == 2


def test_bounds_that_change_are_followed_without_stopping_what_runs(
    node: Callable[..., NodeProcess], config: Path, shop_store: Store, effects: Path
) -> None:
    write(config, "pools: {mail: {min: 3, max: 3}}")
    started = node("--config", str(config), workers=3)
    running = [shop.gated_once.using(queue="mail").enqueue() for _ in range(3)]
    until(lambda: all(handle.state is State.LEASED for handle in running), "all run")

    write(config, "pools: {mail: {min: 1, max: 1}}")
    until(lambda: [said["after"] for said in started.events("PoolResized")] == [1], "it shrinks")
    assert len(started.workers()) == 3
    effects.with_name("gate").touch()

    assert [handle.result(PATIENCE) for handle in running] == ["first"] * 3
    until(lambda: len(started.workers()) == 1, "two have left when they were done")
    assert {handle.task().attempts for handle in running} == {1}
