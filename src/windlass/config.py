"""The settings of a node: its pools and its limits, validated together so that all problems are reported at once.

A flag overrides the environment, the environment overrides `windlass.yaml`, and that overrides the defaults here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal, cast

import msgspec
import yaml
from msgspec import Struct

from windlass.autoscale.settings import TIME_SETTINGS, Settings, find_setting_errors
from windlass.core.names import check_name
from windlass.core.ordering import Strategy
from windlass.core.times import duration
from windlass.errors import InvalidTask, WindlassError
from windlass.redaction import redact_text
from windlass.stores.protocol import RETENTION, SESSION_TTL, TaskReader


class InvalidSettings(WindlassError, ValueError):
    """The settings are invalid. The message lists every problem."""

    code = "invalid_settings"


class SignalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An external number that affects the size of a pool: `value / per_worker` workers."""

    name: str
    """The name of a function registered with `@app.signal`, unless there is a `query`."""
    query: str = ""
    """A Prometheus query. Several series are added up."""
    url: str = ""
    """The address of Prometheus, such as http://prometheus:9090."""
    means: Literal["limit", "want"] = "limit"
    """`limit`: at most this many workers. `want`: at least this many, within the bounds."""
    per_worker: float = 1.0
    """How much of the value one worker uses or serves."""
    every: float = 5.0
    """Seconds between readings."""
    half_life: float = 0.0
    """Half-life of the smoothing in seconds; 0 uses each reading as it is."""

    def faults(self) -> list[str]:
        """Return the problems of these settings."""
        found: list[str] = []
        if bool(self.query) != bool(self.url):
            found.append(f"query={self.query!r} and url={redact_text(self.url)!r} must be set together")
        if self.url and not self.url.startswith(("http://", "https://")):
            found.append(f"url={redact_text(self.url)!r} is not an HTTP address such as http://prometheus:9090")
        elif "@" in self.url:
            found.append("url contains a user or a password, which are not supported")
        if self.per_worker <= 0:
            found.append(f"per_worker={self.per_worker:g} must be greater than 0")
        if not 1 <= self.every <= 3_600:
            found.append(f"every={self.every:g} is out of range (1 to 3600 seconds)")
        if self.half_life < 0:
            found.append(f"half_life={self.half_life:g} must be 0 or more seconds")
        return found


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named set of workers that serve certain queues."""

    name: str = "default"
    queues: tuple[str, ...] = ("default",)
    weights: tuple[int, ...] = ()
    """The share of each queue in the workers' time; empty for the weights that the queues have in the store."""
    order: Literal["queues", "deadline"] = "queues"
    """`queues`: one queue after the other, each in its own order. `deadline`: the earliest deadline over all queues;
    they must all have the strategy `deadline`."""
    size: int | None = None
    """A fixed number of workers; if omitted, the pool scales between `min` and `max`."""
    min: int = 1
    max: int | None = None
    """Maximum workers on this node; if omitted, 8 per processor, at most 64."""
    scale: Settings = Settings()
    """How the pool scales; above all `wait`, the longest time that a task may wait."""
    signals: tuple[SignalSettings, ...] = ()
    """External numbers that affect its size."""
    priority: int = 0
    """If the node's budget is too small for all pools, those with the higher priority get it first."""
    idle_after: timedelta | None = timedelta(minutes=10)
    """A worker beyond `min` stops after being idle for this long, and starts again when needed."""
    start_timeout: timedelta = timedelta(minutes=5)
    """A worker whose start hooks take longer than this is killed, and another one is tried after a while."""
    threads: int = 1
    """Tasks that a worker runs at once. Above 1: `def` handlers in threads, `async def` handlers on its event loop."""
    async_tasks: int = 32
    """With one thread: tasks of `async def` handlers that a worker runs at once, while it runs no `def` handler."""
    recycle_after: int | None = None
    """A worker is replaced after this many tasks."""
    memory_limit: int | None = None
    """A worker that uses more bytes than this is replaced between tasks."""
    memory: int | None = None
    """The bytes that tasks with `memory` may need together on this node; if omitted, their `memory` has no effect."""

    @property
    def min_workers(self) -> int:
        """Minimum number of workers on this node."""
        return self.min if self.size is None else self.size

    @property
    def max_workers(self) -> int:
        """Maximum number of workers on this node without an override."""
        return self.override_max if self.size is None else self.size

    @property
    def override_max(self) -> int:
        """Maximum number of workers on this node with an override."""
        return max(self.size or 0, default_max() if self.max is None else self.max)

    def faults(self) -> list[str]:
        """Return the problems of these settings."""
        where = f"pools.{self.name}"
        found: list[str] = []
        for field, name in [("name", self.name), *(("queues", queue) for queue in self.queues)]:
            try:
                check_name(f"{where}.{field}", name)
            except InvalidTask as error:
                found.append(str(error))
        if not self.queues:
            found.append(f"{where}.queues is empty, name at least one queue")
        if self.weights and (len(self.weights) != len(self.queues) or min(self.weights) < 1):
            found.append(f"{where}.weights={self.weights} must have one number from 1 for each queue, or none")
        if self.weights and self.order == "deadline":
            found.append(f"{where}.weights has no effect with order=deadline, which merges all queues; remove it")
        if not 0 <= self.min <= self.override_max <= 1_000:
            found.append(f"{where}: min={self.min}, max={self.override_max} must satisfy 0 ≤ min ≤ max ≤ 1000")
        if self.size is not None and not 0 <= self.size <= 1_000:
            found.append(f"{where}.size={self.size} is out of range (0 to 1000)")
        if not 1 <= self.threads <= 1_000:
            found.append(f"{where}.threads={self.threads} is out of range (1 to 1000)")
        if not 1 <= self.async_tasks <= 10_000:
            found.append(f"{where}.async_tasks={self.async_tasks} is out of range (1 to 10000)")
        if self.recycle_after is not None and self.recycle_after < 1:
            found.append(f"{where}.recycle_after={self.recycle_after} must be 1 or more")
        if self.memory_limit is not None and self.memory_limit < 1 << 20:
            found.append(f"{where}.memory_limit={self.memory_limit} bytes is too small for a worker")
        if self.memory is not None and self.memory < 0:
            found.append(f"{where}.memory={self.memory} must be 0 or more bytes")
        if self.start_timeout < timedelta(seconds=1):
            found.append(f"{where}.start_timeout={self.start_timeout} must be at least one second")
        if self.idle_after is not None and self.idle_after < timedelta(seconds=1):
            found.append(f"{where}.idle_after={self.idle_after} must be at least one second, or none")
        if (self.scale.min, self.scale.max) != (Settings().min, Settings().max):
            found.append(f"{where}.scale.min and max cannot be set; use {where}.min and {where}.max")
        found += [f"{where}.signals.{each.name}: {fault}" for each in self.signals for fault in each.faults()]
        return found + [f"{where}.scale.{fault}" for fault in find_setting_errors(self.scale)]


def check_orders(pools: Iterable[PoolSettings], store: TaskReader) -> None:
    """Raise `InvalidSettings` if a pool with order=deadline serves a queue with another strategy."""
    wanted = [(pool.name, queue) for pool in pools if pool.order == "deadline" for queue in pool.queues]
    if not wanted:
        return
    strategies = {queue.name: queue.strategy for queue in store.queues()}
    wrong = [
        f"pools.{pool}.order=deadline, but the queue {queue} has the strategy "
        f"{strategies.get(queue, Strategy.PRIORITY).value}; run `windlass queues set {queue} --strategy deadline`"
        for pool, queue in wanted
        if strategies.get(queue) is not Strategy.DEADLINE
    ]
    if wrong:
        raise InvalidSettings("Invalid settings: " + "; ".join(wrong))


def default_max() -> int:
    """Return the default maximum of workers: enough for handlers that mostly wait."""
    return min(64, 8 * (os.cpu_count() or 1))


class BudgetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit for all pools of a node together. Pools with the higher priority get their workers first."""

    workers: int | None = None
    memory: int | None = None
    """Bytes for all workers; converted to a number of workers by their current memory use."""

    def faults(self) -> list[str]:
        """Return the problems of these settings."""
        found: list[str] = []
        if self.workers is not None and not 1 <= self.workers <= 10_000:
            found.append(f"budget.workers={self.workers} is out of range (1 to 10000)")
        if self.memory is not None and self.memory < 16 << 20:
            found.append(f"budget.memory={self.memory} bytes is too small for a worker")
        return found


class NodeSettings(Struct, frozen=True, kw_only=True):
    """The settings of a node."""

    app: str
    """The app to serve, such as `shop:app`."""
    name: str = ""
    """The name of the node; if empty, the host name and the process id."""
    pools: tuple[PoolSettings, ...] = (PoolSettings(),)
    budget: BudgetSettings = BudgetSettings()
    tags: tuple[str, ...] = ()
    """Labels of this machine, for tasks with `requires`."""
    drain_timeout: timedelta | None = timedelta(seconds=30)
    """How long a drain waits for running tasks before it stops and releases them; None for no limit."""
    hide_store_url: bool = False
    """Whether the variables that contain the store's URL are removed from the environment of workers."""
    retention: timedelta = RETENTION
    """How long finished tasks are kept."""
    session_ttl: timedelta = SESSION_TTL
    """Time after the last renewal until the node counts as lost."""
    path: tuple[str, ...] = ()
    """The module search path of worker processes; if empty, the default path and the current directory."""
    imports: tuple[str, ...] = ()
    """Modules that worker processes import after the app."""
    log_level: str = "info"
    """The lowest level of what workers show of the logs of handlers."""
    log_json: bool = False
    """Whether workers show it as JSON."""
    health: str = ""
    """Address for `/healthz`, `/readyz` and `/metrics`, as HOST:PORT or PORT; empty to serve none."""
    worker_user: str = ""
    """The user of this machine as whom workers run; if empty, that of the node. Only root can choose another one."""

    def check(self) -> None:
        """Raise `InvalidSettings` with all problems together."""
        found = [fault for pool in self.pools for fault in pool.faults()] + self.budget.faults()
        names = [pool.name for pool in self.pools]
        found += [
            f"pools.{name} is defined twice, give each pool its own name" for name in {*names} if names.count(name) > 1
        ]
        if not timedelta(seconds=1) <= self.session_ttl <= timedelta(hours=1):
            found.append(f"session_ttl={self.session_ttl} is out of range (one second to one hour)")
        if not timedelta(minutes=1) <= self.retention <= timedelta(days=3650):
            found.append(f"retention={self.retention} is out of range (one minute to ten years)")
        if self.drain_timeout is not None and self.drain_timeout < timedelta(0):
            found.append(f"drain_timeout={self.drain_timeout.total_seconds():g}s must be 0 (no limit) or more")
        if not self.pools:
            found.append("pools is empty, a node needs at least one pool")
        if found:
            raise InvalidSettings("Invalid settings: " + "; ".join(found))

    def changes(self, other: NodeSettings) -> list[str]:
        """Return the changes to new settings, or raise `InvalidSettings` if they need a restart of the node."""
        fields = ("app", "name", "tags", "session_ttl", "hide_store_url", "retention", "health")
        fixed = [field for field in fields if getattr(self, field) != getattr(other, field)]
        pools, others = ({pool.name: pool for pool in each.pools} for each in (self, other))
        fixed += [f"pools.{name}" for name in sorted({*pools} ^ {*others})]
        fixed += ["worker_user"] if self.worker_user != other.worker_user else []
        if fixed:
            raise InvalidSettings(f"{', '.join(fixed)} cannot change while a node runs. Restart the node.")
        found = [
            f"pools.{name}.{field}: {getattr(pool, field)!r} → {getattr(others[name], field)!r}"
            for name, pool in pools.items()
            for field in pool.__struct_fields__
            if getattr(pool, field) != getattr(others[name], field)
        ]
        found += [
            f"{field}: {getattr(self, field)!r} → {getattr(other, field)!r}"
            for field in ("budget", "drain_timeout")
            if getattr(self, field) != getattr(other, field)
        ]
        return found


class FileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of `windlass.yaml`."""

    app: str | None = None
    store: str | None = None
    name: str = ""
    tags: tuple[str, ...] = ()
    drain_timeout: timedelta | None = timedelta(seconds=30)
    hide_store_url: bool = False
    retention: timedelta = RETENTION
    session_ttl: timedelta = SESSION_TTL
    health: str | int = ""
    worker_user: str = ""
    pools: tuple[PoolSettings, ...] = ()
    budget: BudgetSettings = BudgetSettings()


def read_settings(path: Path | None = None) -> FileSettings:
    """Read a settings file; without a path, `windlass.yaml` in the current directory if it exists."""
    chosen = path or Path("windlass.yaml")
    if path is None and not chosen.exists():
        return FileSettings()
    try:
        raw: object = yaml.safe_load(chosen.read_text())
        return msgspec.convert(_normalize(raw), FileSettings)
    except OSError as error:
        raise InvalidSettings(f"Cannot read {chosen}: {error.strerror}.") from error
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettings(f"Invalid settings in {chosen}: {error}") from error


def _pool(name: str, raw: object) -> object:
    """Convert one pool of the file; the structs reject what is not a pool."""
    if not isinstance(raw, dict):
        return raw
    pool = {"queues": [name], **cast("dict[str, object]", raw), "name": name}
    if "start_timeout" in pool:
        pool["start_timeout"] = _time(pool["start_timeout"], f"pools.{name}.start_timeout")
    if "idle_after" in pool:
        pool["idle_after"] = _time(pool["idle_after"], f"pools.{name}.idle_after") or None
    if isinstance(pool.get("scale"), dict):
        scale = cast("dict[str, object]", pool["scale"])
        _check_scale(name, scale)
        timed = {field: scale[field] for field in TIME_SETTINGS if field in scale}
        seconds = {field: _time(value, f"pools.{name}.scale.{field}") for field, value in timed.items()}
        pool["scale"] = scale | {
            field: value.total_seconds() if isinstance(value, timedelta) else value for field, value in seconds.items()
        }
    return pool


def _check_scale(name: str, scale: Mapping[str, object]) -> None:
    """Reject unknown settings. The struct itself allows them, because nodes of newer versions publish theirs."""
    unknown = [str(field) for field in scale if field not in Settings.__struct_fields__]
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise InvalidSettings(f"Unknown setting in pools.{name}.scale: {', '.join(unknown)}. The settings are {known}.")


def _time(value: object, field: str) -> object:
    """Convert a duration; the structs reject what is not a duration."""
    return duration(value, field) if isinstance(value, str | int | float) else value


def _normalize(raw: object) -> object:
    """Convert the file's form (pools by name, durations as text) to the form of the structs."""
    if not isinstance(raw, dict):
        return {} if raw is None else raw
    found = cast("dict[str, object]", raw)
    pools = found.get("pools")
    if isinstance(pools, dict):
        named = cast("dict[str, object]", pools)
        found["pools"] = [_pool(name, pool or {}) for name, pool in named.items()]
    for field in ("drain_timeout", "session_ttl", "retention"):
        if found.get(field) is not None:
            found[field] = _time(found[field], field)
    found["drain_timeout"] = found.get("drain_timeout", timedelta(seconds=30)) or None
    return found
