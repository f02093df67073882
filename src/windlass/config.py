"""What a node is told: its pools and its limits. One frozen value, checked once, all faults reported together.

A flag counts more than the environment, that more than `windlass.yaml`, that more than the defaults here.
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
from windlass.stores.protocol import SESSION_TTL, TaskReader


class InvalidSettings(WindlassError, ValueError):
    """Settings that cannot be followed; every fault is named."""

    code = "invalid_settings"


class SignalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number from outside that bears on the size of a pool: `value / per_worker` workers."""

    name: str
    """Of a function that the app has registered with `@app.signal`, unless there is a `query`."""
    query: str = ""
    """For Prometheus; of several series the sum counts."""
    url: str = ""
    """Where Prometheus is, as in http://prometheus:9090."""
    means: Literal["limit", "want"] = "limit"
    """`limit`: never more workers than this. `want`: at least so many, within the bounds."""
    per_worker: float = 1.0
    """How much of it one worker uses, or serves."""
    every: float = 5.0
    """Seconds between two readings."""
    half_life: float = 0.0
    """Seconds after which a reading counts half; 0 takes each as it is."""

    def faults(self) -> list[str]:
        """What is wrong with it."""
        found: list[str] = []
        if bool(self.query) != bool(self.url):
            found.append(f"query={self.query!r}, url={self.url!r} belong together; give both or none")
        if self.url and not self.url.startswith(("http://", "https://")):
            found.append(f"url={self.url!r} is no address; give something like http://prometheus:9090")
        if self.per_worker <= 0:
            found.append(f"per_worker={self.per_worker:g} is out of range; give more than 0")
        if not 1 <= self.every <= 3_600:
            found.append(f"every={self.every:g} is out of range; give 1 to 3600 seconds")
        if self.half_life < 0:
            found.append(f"half_life={self.half_life:g} is out of range; give 0 or more seconds")
        return found


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named set of workers that serve some queues."""

    name: str = "default"
    queues: tuple[str, ...] = ("default",)
    weights: tuple[int, ...] = ()
    """How often each queue is the first to be asked; empty for all alike."""
    order: Literal["queues", "deadline"] = "queues"
    """`queues`: one queue after the other, each in its own order. `deadline`: the earliest deadline over all of them;
    then each must have the strategy `deadline`."""
    size: int | None = None
    """How many workers it has; left out, it sizes itself between `min` and `max`."""
    min: int = 1
    max: int | None = None
    """The most workers on this node; left out, 8 for each processor and no more than 64."""
    scale: Settings = Settings()
    """How it sizes itself: above all `wait`, how long a task may wait."""
    signals: tuple[SignalSettings, ...] = ()
    """Numbers from outside that bear on its size."""
    priority: int = 0
    """Of several pools on a node whose budget is too small for all, the higher is served first."""
    idle_after: timedelta | None = timedelta(minutes=10)
    """A worker beyond `min` that had nothing to do for so long leaves, and comes back when it is needed."""
    threads: int = 1
    """How many tasks a worker runs at once: `def` handlers in threads, `async def` ones on its loop."""
    recycle_after: int | None = None
    """A worker is replaced after so many tasks."""
    memory_limit: int | None = None
    """A worker is replaced, between tasks, when it holds more bytes than this."""

    @property
    def floor(self) -> int:
        """The fewest workers that it has here."""
        return self.min if self.size is None else self.size

    @property
    def ceiling(self) -> int:
        """The most workers that it has here by itself."""
        return self.most if self.size is None else self.size

    @property
    def most(self) -> int:
        """The most workers that it may be ordered to have here."""
        return max(self.size or 0, default_max() if self.max is None else self.max)

    def faults(self) -> list[str]:
        """What is wrong with it."""
        where = f"pools.{self.name}"
        found: list[str] = []
        for field, name in [("name", self.name), *(("queues", queue) for queue in self.queues)]:
            try:
                check_name(f"{where}.{field}", name)
            except InvalidTask as error:
                found.append(str(error))
        if not self.queues:
            found.append(f"{where}.queues is empty; name at least one queue")
        if self.weights and (len(self.weights) != len(self.queues) or min(self.weights) < 1):
            found.append(f"{where}.weights={self.weights} does not fit; give one number from 1 for each queue, or none")
        if self.weights and self.order == "deadline":
            found.append(
                f"{where}.weights mean nothing with order=deadline, which takes all queues as one; leave them out"
            )
        if not 0 <= self.min <= self.most <= 1_000:
            found.append(f"{where}: min={self.min}, max={self.most} is no range; give 0 ≤ min ≤ max ≤ 1000")
        if self.size is not None and not 0 <= self.size <= 1_000:
            found.append(f"{where}.size={self.size} is out of range; give 0 to 1000")
        if not 1 <= self.threads <= 1_000:
            found.append(f"{where}.threads={self.threads} is out of range; give 1 to 1000")
        if self.recycle_after is not None and self.recycle_after < 1:
            found.append(f"{where}.recycle_after={self.recycle_after} is out of range; give 1 or more")
        if self.memory_limit is not None and self.memory_limit < 1 << 20:
            found.append(f"{where}.memory_limit={self.memory_limit} is too little for any worker; give bytes")
        if self.idle_after is not None and self.idle_after < timedelta(seconds=1):
            found.append(f"{where}.idle_after={self.idle_after} is too short; give a second or more, or none")
        if (self.scale.floor, self.scale.ceiling) != (Settings().floor, Settings().ceiling):
            found.append(f"{where}.scale has no floor and no ceiling of its own; give {where}.min and {where}.max")
        found += [f"{where}.signals.{each.name}: {fault}" for each in self.signals for fault in each.faults()]
        return found + [f"{where}.scale.{fault}" for fault in find_setting_errors(self.scale)]


def check_orders(pools: Iterable[PoolSettings], store: TaskReader) -> None:
    """Refuse a pool that is to go by deadlines over queues that do not: their tasks' places cannot be compared."""
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
        raise InvalidSettings("settings: " + "; ".join(wrong))


def default_max() -> int:
    """The most workers of a pool that was not told: enough for handlers that mostly wait."""
    return min(64, 8 * (os.cpu_count() or 1))


class BudgetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all pools of a node may use together; when it is not enough for all, the higher priority is served first."""

    workers: int | None = None
    memory: int | None = None
    """Bytes that all workers may hold; by what they hold now, it is a number of workers."""

    def faults(self) -> list[str]:
        """What is wrong with it."""
        found: list[str] = []
        if self.workers is not None and not 1 <= self.workers <= 10_000:
            found.append(f"budget.workers={self.workers} is out of range; give 1 to 10000")
        if self.memory is not None and self.memory < 16 << 20:
            found.append(f"budget.memory={self.memory} is too little for any worker; give bytes")
        return found


class NodeSettings(Struct, frozen=True, kw_only=True):
    """One node."""

    app: str
    """Which app to serve, as in `shop:app`."""
    name: str = ""
    """What people call the node; the machine's name and the process id when empty."""
    pools: tuple[PoolSettings, ...] = (PoolSettings(),)
    budget: BudgetSettings = BudgetSettings()
    tags: tuple[str, ...] = ()
    """What this machine has, for tasks that say `requires`."""
    drain_timeout: timedelta | None = timedelta(seconds=30)
    """How long a drain waits for running tasks before they are stopped and released; None for as long as they take."""
    pass_store_url: bool = False
    """Whether workers see the store's URL in their environment."""
    session_ttl: timedelta = SESSION_TTL
    """How long after its last renewal the node counts as lost."""
    path: tuple[str, ...] = ()
    """Where the worker processes look for modules; empty for the usual path and the current directory."""
    imports: tuple[str, ...] = ()
    """Modules that they import after the app."""
    health: str = ""
    """Where `/healthz`, `/readyz` and `/metrics` are served, as HOST:PORT or PORT; empty for nowhere."""

    def check(self) -> None:
        """Refuse what cannot be followed, all of it at once."""
        found = [fault for pool in self.pools for fault in pool.faults()] + self.budget.faults()
        names = [pool.name for pool in self.pools]
        found += [
            f"pools.{name} stands twice; give each pool its own name" for name in {*names} if names.count(name) > 1
        ]
        if not timedelta(seconds=1) <= self.session_ttl <= timedelta(hours=1):
            found.append(f"session_ttl={self.session_ttl} is out of range; give one second to one hour")
        if self.drain_timeout is not None and self.drain_timeout < timedelta(0):
            found.append(f"drain_timeout={self.drain_timeout.total_seconds():g}s is no time; give 0 for ever, or more")
        if not self.pools:
            found.append("pools is empty; a node without a pool would run nothing")
        if found:
            raise InvalidSettings("settings: " + "; ".join(found))

    def changes(self, other: NodeSettings) -> list[str]:
        """What is different in others that are to be followed while the node runs; refused if that needs a new node."""
        fields = ("app", "name", "tags", "session_ttl", "pass_store_url", "health")
        lasting = [field for field in fields if getattr(self, field) != getattr(other, field)]
        pools, others = ({pool.name: pool for pool in each.pools} for each in (self, other))
        lasting += [f"pools.{name}" for name in sorted({*pools} ^ {*others})]
        if lasting:
            raise InvalidSettings(f"settings: {', '.join(lasting)} cannot change while a node runs; start it anew")
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
    """What `windlass.yaml` may say."""

    app: str | None = None
    store: str | None = None
    name: str = ""
    tags: tuple[str, ...] = ()
    drain_timeout: timedelta | None = timedelta(seconds=30)
    pass_store_url: bool = False
    session_ttl: timedelta = SESSION_TTL
    health: str | int = ""
    pools: tuple[PoolSettings, ...] = ()
    budget: BudgetSettings = BudgetSettings()


def read_settings(path: Path | None = None) -> FileSettings:
    """The settings of a file; without one, those of `windlass.yaml` in this folder, if there is one."""
    chosen = path or Path("windlass.yaml")
    if path is None and not chosen.exists():
        return FileSettings()
    try:
        raw: object = yaml.safe_load(chosen.read_text())
        return msgspec.convert(_named(raw), FileSettings)
    except OSError as error:
        raise InvalidSettings(f"settings: {chosen} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettings(f"settings: {chosen}: {error}") from error


def _pool(name: str, raw: object) -> object:
    """One pool of the file; what is none is left for the structs to refuse."""
    if not isinstance(raw, dict):
        return raw
    pool = {"queues": [name], **cast("dict[str, object]", raw), "name": name}
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
    """Refuse what is no setting: nodes read each other's, where what is unknown comes from a later version."""
    unknown = [str(field) for field in scale if field not in Settings.__struct_fields__]
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise InvalidSettings(f"settings: pools.{name}.scale has no {', '.join(unknown)}; give some of {known}")


def _time(value: object, field: str) -> object:
    """A time as people write it; what is none is left for the structs to refuse."""
    return duration(value, field) if isinstance(value, str | int | float) else value


def _named(raw: object) -> object:
    """The file as it is written, with pools by name, as the structs have it; times as people write them."""
    if not isinstance(raw, dict):
        return {} if raw is None else raw
    found = cast("dict[str, object]", raw)
    pools = found.get("pools")
    if isinstance(pools, dict):
        named = cast("dict[str, object]", pools)
        found["pools"] = [_pool(name, pool or {}) for name, pool in named.items()]
    for field in ("drain_timeout", "session_ttl"):
        if found.get(field) is not None:
            found[field] = _time(found[field], field) or None
    return found
