"""Virtual time: many processes in one thread, of which one runs at a time, chosen by a seed.

A process is a greenlet. It runs until it waits: for time, for an event, a condition, a lock, or an answer of the store.
Only then does another one run, and no real time passes. `SimulatedThreading` stands in for `threading` in the
code of the node, which so runs unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

SECOND = 1_000_000


class Deadlock(AssertionError):
    """A process waits for a lock that nobody can release."""


class Host:
    """Processes that are paused and killed together: those of one node, or one client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused_until = 0
        self.processes: set[Process] = set()


class Process:
    """One thread of execution in virtual time."""

    def __init__(self, scheduler: Scheduler, host: Host, name: str, work: Callable[[], object]) -> None:
        self.host = host
        self.name = name
        self.ended = SimulatedEvent(scheduler)
        self.turn = 0
        """Grows whenever it continues. A wake-up for an earlier turn is outdated."""
        self._scheduler = scheduler
        self._work = work
        self.greenlet = greenlet(self._run, scheduler.main)
        host.processes.add(self)

    def _run(self) -> None:
        try:
            self._work()
        except GreenletExit:
            pass
        except BaseException as error:  # noqa: BLE001 - it ends the run, whatever it is
            self._scheduler.fail(error)
        finally:
            self.host.processes.discard(self)
            self.ended.set()


class Scheduler:
    """The clock of the whole simulation, and everything that is due later."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0
        """Microseconds since the start."""
        self.main = getcurrent()
        self.steps = 0
        self.error: BaseException | None = None
        self._due: list[tuple[int, float, int, Callable[[], None]]] = []
        self._number = 0
        self._hosts: dict[Host, None] = {}
        self._current: Process | None = None

    @property
    def current(self) -> Process:
        """The process that runs now."""
        assert self._current is not None, "only a process may wait"
        return self._current

    def fail(self, error: BaseException) -> None:
        """End the simulation with an error."""
        self.error = self.error or error

    def call_at(self, moment: int, action: Callable[[], None]) -> None:
        """Call a function at a moment. What is due at the same moment comes in random order."""
        self._number += 1
        heappush(self._due, (max(moment, self.now), self.random.random(), self._number, action))

    def call_after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call a function after some seconds."""
        self.call_at(self.now + round(seconds * SECOND), action)

    def spawn(self, host: Host, name: str, work: Callable[[], object]) -> Process:
        """Start a process."""
        process = Process(self, host, name, work)
        self._hosts[host] = None
        self._schedule(process, self.now)
        return process

    def run(self, is_over: Callable[[], bool]) -> None:
        """Do what is due, in order, until it is over or a process has failed."""
        while self._due and self.error is None and not is_over():
            self.now, _, _, action = heappop(self._due)
            self.steps += 1
            action()
        if self.error is not None:
            raise self.error

    def sleep(self, seconds: float) -> None:
        """Let the current process wait."""
        process = self.current
        self._schedule(process, self.now + max(0, ceil(seconds * SECOND)))
        self._suspend()

    def wait(self, waiting: deque[Process], seconds: float | None) -> bool:
        """Let the current process wait until it is taken from this list. Return False if the time is over before."""
        process = self.current
        waiting.append(process)
        if seconds is not None:
            self._schedule(process, self.now + max(0, ceil(seconds * SECOND)))
        try:
            self._suspend()
        finally:
            notified = process not in waiting
            if not notified:
                waiting.remove(process)
        return notified

    def wake(self, process: Process) -> None:
        """Let a process go on now."""
        self._schedule(process, self.now)

    def pause(self, host: Host, seconds: float) -> None:
        """Stop every process of a host for a while, as SIGSTOP does."""
        host.paused_until = max(host.paused_until, self.now + round(seconds * SECOND))

    def kill(self, host: Host) -> None:
        """End every process of a host where it is, as SIGKILL does. Called by no process of that host."""
        host.alive = False
        for process in sorted(host.processes, key=lambda one: one.name):
            if process.greenlet:
                process.turn += 1
                before, self._current = self._current, process
                process.greenlet.parent = getcurrent()
                process.greenlet.throw(GreenletExit)
                self._current = before
        host.processes.clear()

    def kill_all(self) -> None:
        """End all processes. One that waits for something is never collected as garbage, nor what it refers to."""
        for host in self._hosts:
            self.kill(host)

    def _schedule(self, process: Process, moment: int) -> None:
        turn = process.turn
        self.call_at(moment, lambda: self._resume(process, turn))

    def _resume(self, process: Process, turn: int) -> None:
        if turn != process.turn or process.greenlet.dead or not process.host.alive:
            return
        if process.host.paused_until > self.now:
            self.call_at(process.host.paused_until, lambda: self._resume(process, turn))
            return
        process.turn += 1
        self._current = process
        process.greenlet.switch()
        self._current = None

    def _suspend(self) -> None:
        process = self.current
        if not process.host.alive:
            raise GreenletExit
        self.main.switch()
        if not process.host.alive:
            raise GreenletExit


class SimulatedEvent:
    """`threading.Event` in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: deque[Process] = deque()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        while self._waiting:
            self._scheduler.wake(self._waiting.popleft())

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set and timeout != 0:
            self._scheduler.wait(self._waiting, timeout)
        return self._set


class SimulatedLock:
    """`threading.RLock` in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Process | None = None
        self._count = 0
        self._waiting: deque[Process] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler.current
        while self._owner not in (None, me):
            if not blocking or (timeout >= 0 and self._waiting):
                return False
            if not self._owner.host.alive:
                raise Deadlock(f"{me.name} waits for a lock of {self._owner.name}, which was killed")
            self._scheduler.wait(self._waiting, None)
        self._owner, self._count = me, self._count + 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                self._scheduler.wake(self._waiting.popleft())

    def release_all(self) -> int:
        """Release the lock however often it is held. Return how often that was."""
        count, self._count = self._count, 1
        self.release()
        return count

    def acquire_again(self, count: int) -> None:
        """Take the lock as often as it was held."""
        self.acquire()
        self._count = count

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedCondition:
    """`threading.Condition` in virtual time."""

    def __init__(self, scheduler: Scheduler, lock: SimulatedLock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or SimulatedLock(scheduler)
        self._waiting: deque[Process] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        count = self._lock.release_all()
        notified = self._scheduler.wait(self._waiting, timeout)
        self._lock.acquire_again(count)
        return notified

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiting))):
            self._scheduler.wake(self._waiting.popleft())

    def notify_all(self) -> None:
        self.notify(len(self._waiting))

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class SimulatedThread:
    """`threading.Thread` in virtual time. It runs on the host of the process that starts it."""

    def __init__(self, scheduler: Scheduler, target: Callable[..., object], args: tuple[Any, ...], name: str) -> None:
        self._scheduler = scheduler
        self._work = lambda: target(*args)
        self._name = name
        self._process: Process | None = None

    def start(self) -> None:
        self._process = self._scheduler.spawn(self._scheduler.current.host, self._name, self._work)

    def join(self, timeout: float | None = None) -> None:
        if self._process is not None:
            self._process.ended.wait(timeout)


class SimulatedThreading:
    """What the node uses of the module `threading`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Event(self) -> SimulatedEvent:  # noqa: N802 - the name in `threading`
        return SimulatedEvent(self._scheduler)

    def Lock(self) -> SimulatedLock:  # noqa: N802 - the same
        return SimulatedLock(self._scheduler)

    RLock = Lock

    def Condition(self, lock: SimulatedLock | None = None) -> SimulatedCondition:  # noqa: N802 - the same
        return SimulatedCondition(self._scheduler, lock)

    def Thread(  # noqa: N802 - the same
        self, *, target: Callable[..., object], name: str = "thread", args: tuple[Any, ...] = (), daemon: bool = True
    ) -> SimulatedThread:
        return SimulatedThread(self._scheduler, target, args, name)


class SimulatedClock:
    """The clocks of one host: a wall clock that may be wrong, and a monotonic one that may be a little fast or slow."""

    def __init__(self, scheduler: Scheduler, start: int, skew: float = 0.0, drift: float = 0.0) -> None:
        self._scheduler = scheduler
        self._wall = start + round(skew * SECOND)
        self._rate = 1.0 + drift

    def now(self) -> int:
        return self._wall + self._scheduler.now

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward."""
        self._wall += round(seconds * SECOND)

    def monotonic(self) -> float:
        return 1_000.0 + self._scheduler.now / SECOND * self._rate

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(seconds / self._rate)

    def wait(self, flag: Any, seconds: float) -> bool:
        return flag.wait(max(0.0, seconds / self._rate))

    def wait_for_notify(self, condition: Any, seconds: float) -> bool:
        return condition.wait(seconds / self._rate)
