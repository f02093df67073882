"""Whether a node is alive and ready, by the state of its parts."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.test_dispatcher import Recorder, a_dispatcher
from windlass.clock import ManualClock
from windlass.config import PoolSettings
from windlass.events import Events
from windlass.health import Health
from windlass.worker import node_status as module
from windlass.worker.node_status import HUB_SECONDS, NodeHealth
from windlass.worker.worker import WorkerState


class Parts:
    """A healthy node whose parts a test can break."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failure: str | None = None
        self.degraded: dict[str, str] = {}
        self.silent: float | None = 1.0
        self.dispatcher = a_dispatcher([PoolSettings(size=1)], Recorder(), Events())
        self.dispatcher.has_parent = True
        self.worker = SimpleNamespace(state=WorkerState.IDLE)
        self.dispatcher.pools["default"].workers[1] = cast("Any", self.worker)
        self.hub = SimpleNamespace(lock=threading.RLock(), dispatcher=self.dispatcher, broken=None)
        self.keeper = SimpleNamespace(measure_silence=lambda _now: self.silent, max_silence=7.0, current="session")
        self.health = NodeHealth(
            cast("Any", self.hub), cast("Any", self.keeper), cast("Any", self), lambda: self.failure, self.clock
        )
        for duty in ("hub", "keeper", "autoscaler"):
            self.health.watch(duty, lambda: None)()


@pytest.fixture
def parts() -> Parts:
    return Parts()


def faults(health: Health) -> dict[str, str]:
    return {part.name: part.text for part in health.parts if not part.ready}


def test_a_healthy_node_is_alive_and_ready(parts: Parts) -> None:
    assert parts.health.check_alive().ready
    ready = parts.health.check_ready()

    assert (ready.ready, faults(ready)) == (True, {})
    assert [part.name for part in ready.parts] == ["threads", "session", "store", "workers", "autoscaler"]


def test_a_node_whose_thread_failed_is_not_alive(parts: Parts) -> None:
    parts.failure = "the duty claimer-0 failed"

    assert faults(parts.health.check_alive()) == {"threads": "the duty claimer-0 failed"}
    assert not parts.health.check_alive().ready


def test_a_node_with_a_hanging_hub_is_not_alive(parts: Parts) -> None:
    parts.clock.sleep(HUB_SECONDS + 1)

    assert faults(parts.health.check_alive())["threads"] == "hub has not run for 31 s"
    assert not parts.health.check_alive().ready


def test_an_unavailable_store_makes_a_node_unready_but_not_dead(parts: Parts) -> None:
    parts.silent = 8.0

    assert faults(parts.health.check_ready()) == {"store": "answered 8 s ago"}
    assert not parts.health.check_ready().ready
    assert parts.health.check_alive().ready


def test_without_a_session_it_is_not_ready(parts: Parts) -> None:
    parts.keeper.current, parts.silent = None, None

    assert faults(parts.health.check_ready()).keys() == {"session", "store"}


@pytest.mark.parametrize("state", [WorkerState.STARTING, WorkerState.DRAINING])
def test_without_a_worker_that_takes_tasks_it_is_not_ready(parts: Parts, state: WorkerState) -> None:
    parts.worker.state = state

    assert faults(parts.health.check_ready()) == {"workers": "default 0/1"}


def test_a_pool_of_size_0_is_ready(parts: Parts) -> None:
    parts.dispatcher.pools["default"].target = 0
    parts.dispatcher.pools["default"].workers.clear()

    assert parts.health.check_ready().ready


def test_a_pool_whose_workers_all_sleep_is_ready(parts: Parts) -> None:
    parts.dispatcher.pools["default"].workers.clear()
    parts.dispatcher.pools["default"].asleep = 1

    assert parts.health.check_ready().ready


def test_a_draining_node_is_alive_and_not_ready(parts: Parts) -> None:
    parts.dispatcher.draining = True

    assert faults(parts.health.check_ready()) == {"workers": "the node is draining"}
    assert parts.health.check_alive().ready


def test_an_app_that_is_not_imported_is_not_ready(parts: Parts) -> None:
    parts.dispatcher.has_parent = False

    assert faults(parts.health.check_ready()) == {"workers": "the app is not imported"}


def test_a_degraded_controller_is_shown_and_decides_nothing(parts: Parts) -> None:
    parts.degraded["default"] = "ZeroDivisionError: x"
    parts.clock.sleep(2)

    found = parts.health.check_ready()

    assert found.ready
    assert faults(found) == {"autoscaler": "last tick 2 s ago, degraded: default: ZeroDivisionError: x"}


def test_a_lock_that_is_never_released_is_reported_in_time(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.01)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with parts.hub.lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        assert faults(parts.health.check_ready()) == {"workers": "the node is too busy to check them"}
        assert parts.health.check_alive().ready
    finally:
        done.set()
        thread.join()
