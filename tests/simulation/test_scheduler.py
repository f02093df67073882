"""Virtual time itself: processes, pauses, kills, locks."""

from __future__ import annotations

import pytest

from tests.simulation.scheduler import (
    SECOND,
    Deadlock,
    Host,
    Scheduler,
    SimulatedClock,
    SimulatedCondition,
    SimulatedEvent,
    SimulatedLock,
)


def run(scheduler: Scheduler) -> None:
    scheduler.run(lambda: False)


def test_time_passes_only_when_everyone_waits() -> None:
    scheduler = Scheduler(1)
    seen: list[tuple[str, float]] = []

    def sleeper(name: str, seconds: float) -> None:
        for _ in range(2):
            scheduler.sleep(seconds)
            seen.append((name, scheduler.now / SECOND))

    scheduler.spawn(Host("a"), "a", lambda: sleeper("a", 3_600.0))
    scheduler.spawn(Host("b"), "b", lambda: sleeper("b", 5_000.0))
    run(scheduler)

    assert seen == [("a", 3_600.0), ("b", 5_000.0), ("a", 7_200.0), ("b", 10_000.0)]


def test_a_paused_host_goes_on_later_and_a_killed_one_never() -> None:
    scheduler = Scheduler(1)
    paused, killed = Host("paused"), Host("killed")
    seen: list[str] = []

    def work(host: Host) -> None:
        scheduler.sleep(1.0)
        seen.append(f"{host.name} {scheduler.now / SECOND}")

    for host in (paused, killed):
        scheduler.spawn(host, host.name, lambda host=host: work(host))
    scheduler.call_after(0.5, lambda: scheduler.pause(paused, 10.0))
    scheduler.call_after(0.5, lambda: scheduler.kill(killed))
    run(scheduler)

    assert seen == ["paused 10.5"]


def test_an_event_and_a_condition_wake_up_who_waits() -> None:
    scheduler = Scheduler(1)
    host, event, condition = Host("a"), SimulatedEvent(scheduler), SimulatedCondition(scheduler)
    seen: list[tuple[bool, float]] = []

    def wait_for_event() -> None:
        seen.append((event.wait(1.0), scheduler.now / SECOND))
        seen.append((event.wait(9.0), scheduler.now / SECOND))

    def wait_for_notify() -> None:
        with condition:
            seen.append((condition.wait(9.0), scheduler.now / SECOND))

    scheduler.spawn(host, "event", wait_for_event)
    scheduler.spawn(host, "condition", wait_for_notify)
    scheduler.call_after(2.0, event.set)
    scheduler.call_after(3.0, condition.notify_all)
    run(scheduler)

    assert seen == [(False, 1.0), (True, 2.0), (True, 3.0)]


def test_a_lock_has_one_owner_who_may_take_it_again() -> None:
    scheduler = Scheduler(1)
    host, lock = Host("a"), SimulatedLock(scheduler)
    inside: list[str] = []

    def work(name: str) -> None:
        with lock, lock:
            inside.append(f"{name} in")
            scheduler.sleep(1.0)
            inside.append(f"{name} out")

    for name in ("x", "y"):
        scheduler.spawn(host, name, lambda name=name: work(name))
    run(scheduler)

    assert inside in (["x in", "x out", "y in", "y out"], ["y in", "y out", "x in", "x out"])


def test_an_error_in_a_process_ends_the_run() -> None:
    scheduler = Scheduler(1)

    def fail() -> None:
        raise Deadlock("as planned")

    scheduler.spawn(Host("a"), "a", fail)

    with pytest.raises(Deadlock):
        run(scheduler)


def test_clocks_may_be_wrong_and_drift() -> None:
    scheduler = Scheduler(1)
    fast = SimulatedClock(scheduler, 0, skew=5.0, drift=0.01)
    before = fast.monotonic()
    slept: list[int] = []

    def sleep() -> None:
        fast.sleep(101.0)
        slept.append(scheduler.now)

    scheduler.spawn(Host("a"), "a", sleep)
    run(scheduler)

    assert slept == [100 * SECOND]
    assert fast.monotonic() - before == pytest.approx(101.0)
    assert fast.now() == 105 * SECOND
