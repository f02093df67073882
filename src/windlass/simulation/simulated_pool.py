"""A simulated pool: tasks start in order of arrival, workers take time to start and stop between two tasks.

A worker is one number: the time at which it is free. The next task starts when it has arrived and the first worker is
free. No other event is needed, so a simulated hour takes a fraction of a second. Retries and kills happen at whole
seconds.
"""

from __future__ import annotations

from array import array
from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from random import Random

from windlass.autoscale.observe import Observation
from windlass.core.retry import Error
from windlass.simulation.load import Load

REFUSED = Error(kind="Refused")
AHEAD = 120.0
"""Seconds of the schedule that an observation covers."""


class SimulatedPool:
    """A pool with its queue and counters. `advance` plays one second, `resize` applies a decision."""

    def __init__(self, load: Load, size: int) -> None:
        self.load = load
        self.now = 0
        self.target = size
        self.free = [0.0] * size
        self.starting: list[float] = []
        self.draining: list[float] = []
        self.queue: deque[tuple[float, float, int]] = deque()
        self.retries: list[tuple[float, float, int]] = []
        self.held: dict[float, tuple[float, int]] = {}
        self.next = 0
        self.chance = Random(load.name)
        span = load.length + 2
        self.ended, self.failed, self.change = array("l", [0] * span), array("l", [0] * span), array("l", [0] * span)
        self.part = array("d", [0.0] * span)
        self.running = 0
        self.waits = array("d")
        self.late = 0
        self.cost = 0.0
        self.resizes = 0

    def advance(self) -> Observation:
        """Play one second and return what a policy can observe."""
        begin, load = self.now, self.load
        if load.kill_every and begin and begin % load.kill_every == 0:
            self.kill()
        self.pay()
        self.finish_starts(begin + 1)
        arrived, retried = self.admit(begin + 1)
        late_before, started_before = self.late, len(self.waits)
        self.serve(begin + 1)
        self.now = begin + 1
        self.running += self.change[begin]
        return self.observe(begin, arrived, retried, len(self.waits) - started_before, self.late - late_before)

    def pay(self) -> None:
        """Add the cost of the next second. Workers also cost while they start and drain."""
        self.draining = [end for end in self.draining if end > self.now]
        self.cost += len(self.free) + len(self.starting) + sum(min(1.0, end - self.now) for end in self.draining)

    def finish_starts(self, end: float) -> None:
        """Make workers ready whose start is over."""
        for ready in self.starting:
            if ready < end:
                heappush(self.free, ready)
        self.starting = [ready for ready in self.starting if ready >= end]

    def admit(self, end: float) -> tuple[int, int]:
        """Queue the tasks that become runnable before `end`. Return the numbers of arrivals and retries."""
        arrivals, at = self.load.arrivals, self.next
        fresh: list[tuple[float, float, int]] = []
        while at < len(arrivals) and arrivals[at][0] < end:
            fresh.append((*arrivals[at], 0))
            at += 1
        arrived, self.next = at - self.next, at
        while self.retries and self.retries[0][0] < end:
            fresh.append(heappop(self.retries))
        if len(fresh) > arrived:
            fresh.sort()
        self.queue.extend(fresh)
        return arrived, len(fresh) - arrived

    def serve(self, end: float) -> None:
        """Start every task that can start before `end`."""
        queue, free, goal, waits = self.queue, self.free, self.load.wait, self.waits
        plain = not (self.load.slow or self.load.knee or self.load.storm or self.load.kill_every)
        while queue and free:
            at, service, attempt = queue[0]
            start = free[0]
            if start < at:
                start = at
            if start >= end:
                return
            queue.popleft()
            wait = start - at
            waits.append(wait)
            if wait > goal:
                self.late += 1
            finish = start + (service if plain else self.apply_faults(start, service, attempt))
            heapreplace(free, finish)
            self.book(start, finish, 1)

    def book(self, start: float, finish: float, sign: int) -> None:
        """Add an attempt to the counters of its seconds, or remove it if `sign` is -1."""
        first, last = int(start), int(finish)
        if last >= self.load.length:
            last = self.load.length + 1
        else:
            self.ended[last] += sign
            self.part[last] += sign * (finish - last)
        if first == last:
            self.part[first] -= sign * (start - first)
            return
        self.part[first] += sign * (first + 1 - start)
        self.change[first + 1] += sign
        self.change[last] -= sign

    def apply_faults(self, start: float, service: float, attempt: int) -> float:
        """Return the run time of an attempt under the faults of the load."""
        load = self.load
        if load.slow:
            service *= load.slow.get_factor(start)
        if load.knee:
            busy = sum(1 for end in self.free if end > start) + len(self.draining) + 1
            service *= max(1.0, busy / load.knee)
        if load.storm and load.storm.begin <= start < load.storm.end and self.chance.random() < load.storm.share:
            spent = service * 0.2
            back_off = load.storm.policy.next_delay(attempt + 1, REFUSED, self.chance.random)
            if back_off is not None:
                heappush(self.retries, (start + spent + back_off / 1e6, service, attempt + 1))
            self.failed[min(int(start + spent), load.length)] += 1
            return spent
        if load.kill_every:
            self.held[start + service] = (start, attempt)
        return service

    def kill(self) -> None:
        """Kill a share of the ready workers. Their tasks return to the front of the queue, and new workers start."""
        victims = self.chance.sample(self.free, int(len(self.free) * self.load.kill_share))
        for end in victims:
            self.free.remove(end)
            if end > self.now and end in self.held:
                start, attempt = self.held[end]
                self.book(start, end, -1)
                self.book(start, self.now, 1)
                self.ended[self.now] -= 1
                self.queue.appendleft((float(self.now), end - start, attempt))
        heapify(self.free)
        self.held = {end: what for end, what in self.held.items() if end > self.now}
        self.starting += [self.now + self.load.delay] * len(victims)

    def observe(self, second: int, arrived: int, retried: int, started: int, late: int) -> Observation:
        """Return what a policy can observe."""
        now, load = self.now, self.load
        ready, scheduled = len(self.free), 0
        due: tuple[tuple[float, int], ...] = ()
        if load.scheduled:
            due = tuple((at - now, count) for at, count in load.scheduled if now <= at <= now + AHEAD)
            scheduled = sum(count for at, count in load.scheduled if second <= at < now)
        return Observation(
            queued=len(self.queue), oldest=now - self.queue[0][0] if self.queue else 0.0,
            arrivals=arrived, scheduled=scheduled, retried=retried,
            completions=self.ended[second], errors=self.failed[second], busy=self.running + self.part[second],
            started=started, late=late, ready=ready, running=sum(1 for end in self.free if end > now),
            starting=len(self.starting), draining=len(self.draining), start_delay=load.delay, due=due,
        )  # fmt: skip

    def resize(self, target: int) -> None:
        """Resize the pool. Resume draining workers before starting new ones; cancel starts before stopping workers."""
        target = max(self.load.min, min(self.load.max, target))
        if target != self.target:
            self.resizes += 1
            self.target = target
        alive = len(self.free) + len(self.starting)
        for _ in range(target - alive):
            self.grow()
        for _ in range(alive - target):
            self.shrink()

    def grow(self) -> None:
        """Add one worker."""
        if self.draining:
            heappush(self.free, self.draining.pop())
        else:
            self.starting.append(self.now + self.load.delay)

    def shrink(self) -> None:
        """Remove one worker: one that is starting, else an idle one, else the one that is free next."""
        if self.starting:
            self.starting.pop()
            return
        end = heappop(self.free)
        if end > self.now:
            self.draining.append(end)
