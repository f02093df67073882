"""Limits on tasks: how many may run at once, and how many may start within a period.

A limit has a scope: a queue, a tenant, a tenant within a queue, a handler, or a key that tasks declare. It holds over
all nodes. What runs is counted from live leases, so the places of a dead node come back with its leases. Limits that an
operator sets are stored as controls of the kind `LIMIT`; a task with a key carries its limit itself (`Rules`).

A rate is a token bucket on the store's clock, kept as one number per limit: the time at which its bucket is full again.
The bucket holds the tokens of one period, so at most twice the rate's tasks start within any one period.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Struct

from windlass.core.fairness import SetBy, Tenant
from windlass.core.names import check_name, check_text, shorten
from windlass.core.task import Rate, Rules
from windlass.core.times import Micros, duration, format_duration, micros, span
from windlass.errors import InvalidTask

LIMIT = "limit"
"""The kind of the controls with limits."""
MAX_RUNNING = 1_000_000
MAX_KEY = 200
_RATE = re.compile(r"\s*(\d{1,9})\s*/\s*(\d*\s*[a-z]\w*|\d[\w.\s]*)\s*")


class Limit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit on the tasks in its scope: those of the queue, tenant, handler or key that it names.

    >>> Limit(queue="bulk", tenant="acme", max_running=2)
    >>> Limit(handler="mail.send", rate=Rate(tasks=100, period=timedelta(minutes=1)))
    """

    queue: str | None = None
    tenant: str | None = None
    handler: str | None = None
    key: str | None = None
    max_running: int | None = None
    rate: Rate | None = None
    set_by: SetBy | None = None

    @property
    def name(self) -> str:
        """The name of the scope, such as "queue=bulk,tenant=acme". At most one limit has it."""
        parts = (("queue", self.queue), ("tenant", self.tenant), ("handler", self.handler), ("key", self.key))
        return ",".join(f"{field}={value}" for field, value in parts if value is not None)

    def check(self) -> None:
        """Raise `InvalidTask` for an invalid limit, naming the field."""
        if not scope_is_valid(self):
            raise InvalidTask(
                f"limit on {self.name or 'nothing'}: name a queue, a tenant, a queue and a tenant, a handler, or a key"
            )
        for field in ("queue", "tenant"):
            if getattr(self, field) is not None:
                check_name(field, getattr(self, field))
        if self.handler is not None:
            check_text("handler", self.handler)
        if self.key is not None:
            check_text("key", self.key, MAX_KEY)
        check_amounts(f"limit on {self.name}: ", self.max_running, self.rate)


def scope_is_valid(limit: Limit) -> bool:
    """Return True for one of the five scopes."""
    named = tuple(field for field in ("queue", "tenant", "handler", "key") if getattr(limit, field) is not None)
    return named in (("queue",), ("tenant",), ("queue", "tenant"), ("handler",), ("key",))


def check_amounts(where: str, max_running: object, rate: object) -> None:
    """Raise `InvalidTask` unless a number and a rate are valid, and at least one of them is given."""
    if max_running is None and rate is None:
        raise InvalidTask(f"{where}give max_running, a rate, or both")
    if max_running is not None and (type(max_running) is not int or not 0 <= max_running <= MAX_RUNNING):
        raise InvalidTask(f"{where}max_running={shorten(max_running)} is not an integer from 0 to {MAX_RUNNING:,}")
    if rate is not None:
        check_rate(where, rate)


def check_rate(where: str, rate: object) -> None:
    """Raise `InvalidTask` unless the value is a valid `Rate`."""
    if not isinstance(rate, Rate):
        raise InvalidTask(f"{where}rate={shorten(rate)} is not a Rate. `parse_rate` makes one of text such as 100/1m.")
    if type(rate.tasks) is not int or not 1 <= rate.tasks <= MAX_RUNNING:
        raise InvalidTask(f"{where}rate: {shorten(rate.tasks)} tasks is not an integer from 1 to {MAX_RUNNING:,}")
    if span(rate.period, f"{where}rate period") < rate.tasks:
        raise InvalidTask(f"{where}rate: the period {rate.period} is too short for {rate.tasks:,} tasks")


def parse_rate(text: str, field: str = "rate") -> Rate:
    """Parse a rate such as "100/s", "10/1m" or "5/2h"."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidTask(f'{field}={text!r} is not a rate. Use tasks per period, such as "100/1m" or "5/s".')
    number, period = match.groups()
    period = period.replace(" ", "")
    rate = Rate(int(number), duration(period if period[:1].isdigit() else f"1{period}", field))
    check_rate(f"{field}: ", rate)
    return rate


def format_rate(rate: Rate) -> str:
    """Return a rate as text, as `parse_rate` reads it."""
    return f"{rate.tasks}/{format_duration(micros(rate.period))}"


def encode_limit(limit: Limit) -> str:
    """Encode a limit for storage."""
    return msgspec.json.encode(limit).decode()


def decode_limit(text: str) -> Limit:
    """Decode a stored limit."""
    return msgspec.json.decode(text, type=Limit)


class Demand(NamedTuple):
    """What the limits of a task depend on."""

    queue: str
    tenant: str
    handler: str
    rules: Rules


class Running(NamedTuple):
    """The number of live leases with the same queue, tenant, handler and key."""

    queue: str
    tenant: str
    handler: str
    key: str | None
    tasks: int


class LimitUse(NamedTuple):
    """A limit that applies to a task, and what is used of it."""

    limit: Limit
    running: int
    """The tasks that run in its scope."""
    next_token: Micros | None
    """When its rate allows the next task, if that is not now."""

    @property
    def is_full(self) -> bool:
        """True if as many tasks run as may run at once."""
        return self.limit.max_running is not None and self.running >= self.limit.max_running

    @property
    def blocks(self) -> bool:
        """True if no task in its scope may start now."""
        return self.is_full or self.next_token is not None


class Room:
    """How many more tasks may start under each limit. It counts the tasks that one claim takes.

    `limits` are those that operators set, `tenants` their settings, `running` the live leases, `full_at` the bucket of
    each rate by the name of its limit. All of them may leave out what concerns none of the tasks that are asked about.
    """

    def __init__(
        self,
        limits: Iterable[Limit],
        tenants: Mapping[str, Tenant],
        running: Iterable[Running],
        full_at: Mapping[str, Micros],
        now: Micros,
    ) -> None:
        self._limits = {limit.name: limit for limit in limits if limit.set_by is None or limit.set_by.holds(now)}
        self._paused = {name: tenant.paused for name, tenant in tenants.items() if tenant.is_paused(now)}
        self._now = now
        self._full_at = dict(full_at)
        self._running: dict[str, int] = {}
        self.started: dict[str, Micros] = {}
        """The buckets that changed: when each is full again, by the name of its limit."""
        self.next_token: Micros | None = None
        """When the first of the rates that held a task back allows one again."""
        for queue, tenant, handler, key, tasks in running:
            for name in scope_names(queue, tenant, handler, key):
                self._running[name] = self._running.get(name, 0) + tasks

    def load_buckets(self, full_at: Mapping[str, Micros]) -> None:
        """Add buckets that were not given at first."""
        for name, at in full_at.items():
            self._full_at.setdefault(name, at)

    def list_rates(self, task: Demand) -> list[str]:
        """Return the names of the limits of a task that have a rate."""
        return [name for name, limit in self._applying(task) if limit.rate is not None]

    def get_reopening(self, limit: Limit) -> Micros | None:
        """Return when a limit that holds back tasks may let one start by itself; None if a task must end first."""
        times = [] if limit.set_by is None or limit.set_by.until is None else [limit.set_by.until]
        token = None if limit.rate is None else self._get_use(limit.name, limit).next_token
        return min(times if token is None else [*times, token], default=None)

    def find_blocking(self, task: Demand) -> Limit | None:
        """Return the limit that holds back a task, or None if it may start. The pause of a tenant is a limit of 0."""
        pause = self.get_pause(task.tenant)
        if pause is not None:
            return Limit(tenant=task.tenant, max_running=0, set_by=pause)
        for name, limit in self._applying(task):
            if limit.max_running is not None and self._running.get(name, 0) >= limit.max_running:
                return limit
            token = None if limit.rate is None else self._get_use(name, limit).next_token
            if token is not None:
                self.next_token = token if self.next_token is None else min(self.next_token, token)
                return limit
        return None

    def get_pause(self, tenant: str) -> SetBy | None:
        """Return who paused a tenant; None if its tasks may start."""
        return self._paused.get(tenant)

    def get_uses(self, task: Demand) -> Iterator[LimitUse]:
        """Yield the limits that apply to a task, and what is used of each."""
        return (self._get_use(name, limit) for name, limit in self._applying(task))

    def get_all_uses(self) -> list[LimitUse]:
        """Return what is used of every limit that an operator has set, by name."""
        return [self._get_use(name, self._limits[name]) for name in sorted(self._limits)]

    def _get_use(self, name: str, limit: Limit) -> LimitUse:
        at = None if limit.rate is None else _next_token(limit.rate, self._full_at.get(name, 0), self._now)
        return LimitUse(limit, self._running.get(name, 0), at if at is not None and at > self._now else None)

    def take(self, task: Demand, tasks: int = 1) -> None:
        """Count tasks that start."""
        for name, limit in self._applying(task):
            self._running[name] = self._running.get(name, 0) + tasks
            if limit.rate is not None:
                used = _used(limit.rate, self._full_at.get(name, 0), self._now) + tasks * _interval(limit.rate)
                self._full_at[name] = self.started[name] = self._now + used

    def put_back(self, task: Demand) -> None:
        """Undo `take` for a task that did not start."""
        for name, limit in self._applying(task):
            self._running[name] = self._running.get(name, 0) - 1
            if limit.rate is not None:
                self._full_at[name] = self.started[name] = self._full_at[name] - _interval(limit.rate)

    def take_all(self, tasks: Sequence[tuple[Demand, int]]) -> bool:
        """Count tasks that start, with the number for each demand. Return False if a limit holds back one of them."""
        if any(self.get_pause(task.tenant) is not None for task, _ in tasks):
            return False
        needed: Counter[str] = Counter()
        limits: dict[str, Limit] = {}
        for task, many in tasks:
            for name, limit in self._applying(task):
                needed[name] += many
                limits[name] = limit
        free = {name: self._count_free(name, limit) for name, limit in limits.items()}
        if any(room is not None and room < needed[name] for name, room in free.items()):
            return False
        for task, many in tasks:
            self.take(task, many)
        return True

    def count_free(self, name: str) -> int | None:
        """Return how many more tasks may start under a limit that an operator has set; None for any number."""
        limit = self._limits.get(name)
        return None if limit is None else self._count_free(name, limit)

    def _count_free(self, name: str, limit: Limit) -> int | None:
        free = None if limit.max_running is None else max(0, limit.max_running - self._running.get(name, 0))
        if limit.rate is None:
            return free
        interval = _interval(limit.rate)
        tokens = limit.rate.tasks - -(-_used(limit.rate, self._full_at.get(name, 0), self._now) // interval)
        return tokens if free is None else min(free, tokens)

    def _applying(self, task: Demand) -> Iterable[tuple[str, Limit]]:
        """Yield the limits that apply to a task. What an operator sets for a key replaces what the task declares."""
        for name in scope_names(task.queue, task.tenant, task.handler, task.rules.limit):
            limit = self._limits.get(name)
            if limit is not None:
                yield name, limit
            elif name.startswith("key="):
                yield name, Limit(key=task.rules.limit, max_running=task.rules.max_running, rate=task.rules.rate)


def scope_names(queue: str, tenant: str, handler: str, key: str | None) -> tuple[str, ...]:
    """Return the names of the scopes that a task is in."""
    names = _scope_names(queue, tenant, handler)
    return names if key is None else (*names, f"key={key}")


@lru_cache(maxsize=10_000)
def _scope_names(queue: str, tenant: str, handler: str) -> tuple[str, ...]:
    return f"queue={queue}", f"tenant={tenant}", f"queue={queue},tenant={tenant}", f"handler={handler}"


def _interval(rate: Rate) -> Micros:
    """Return the time in which the bucket gets one token, rounded up so that the rate is never exceeded."""
    return -(-micros(rate.period) // rate.tasks)


def _used(rate: Rate, full_at: Micros, now: Micros) -> Micros:
    """Return how long the bucket takes to fill. One left by a slower rate counts as empty."""
    return min(max(0, full_at - now), rate.tasks * _interval(rate))


def _next_token(rate: Rate, full_at: Micros, now: Micros) -> Micros:
    """Return when the next task may start: now or earlier if there is a token."""
    return now + _used(rate, full_at, now) - (rate.tasks - 1) * _interval(rate)
