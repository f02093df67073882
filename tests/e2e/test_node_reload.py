"""Settings that change while a node runs: an invalid file changes nothing and is reported, a valid one is used."""

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
"""Invalid files, each with what its error names."""


def write(path: Path, text: str) -> None:
    """Replace the file by a new one, as editors do."""
    other = path.with_suffix(".new")
    other.write_bytes(text.encode("latin-1"))
    other.replace(path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    write(path, "pools: {mail: {size: 1}}")
    return path


def test_an_invalid_file_changes_nothing_and_is_reported_and_a_valid_one_is_used(
    node: Callable[..., NodeProcess], config: Path
) -> None:
    started = node("--config", str(config))
    [before] = started.workers()

    for number, (text, named) in enumerate(BAD, start=1):
        write(config, text)
        refused = started.await_event("SettingsRefused", number)
        assert named in refused[-1]["why"], text
    assert shop.add.using(queue="mail").enqueue(1).result(PATIENCE) == 2
    assert started.workers() == [before], "it continues with its old settings"
    assert started.events("PoolResized") == []

    write(config, "pools: {mail: {size: 3, queues: [mail, news]}}")
    [reloaded] = started.await_event("SettingsReloaded")
    until(lambda: len(started.workers()) == 3, "the valid file is used")

    assert any("pools.mail.size: 1 → 3" in change for change in reloaded["changes"])
    assert shop.add.using(queue="news").enqueue(2).result(PATIENCE) == 3, "the new queue is served"
    assert len(started.events("SettingsRefused")) == len(BAD)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_sighup_reloads_a_file_that_looks_unchanged(node: Callable[..., NodeProcess], config: Path) -> None:
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


def test_changed_bounds_are_used_without_stopping_running_tasks(
    node: Callable[..., NodeProcess], config: Path, shop_store: Store, effects: Path
) -> None:
    write(config, "pools: {mail: {min: 3, max: 3}}")
    started = node("--config", str(config), workers=3)
    running = [shop.gated_once.using(queue="mail").enqueue() for _ in range(3)]
    until(lambda: all(handle.state is State.LEASED for handle in running), "all run")

    write(config, "pools: {mail: {min: 1, max: 1}}")
    until(lambda: [each["after"] for each in started.events("PoolResized")] == [1], "it shrinks")
    assert len(started.workers()) == 3
    effects.with_name("gate").touch()

    assert [handle.result(PATIENCE) for handle in running] == ["first"] * 3
    until(lambda: len(started.workers()) == 1, "two workers exit after their tasks")
    assert {handle.task().attempts for handle in running} == {1}
