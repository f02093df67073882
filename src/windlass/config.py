"""What a node is told: its pools and its limits. One frozen value, checked once, all faults reported together.

A flag counts more than the environment, that more than `windlass.yaml`, that more than the defaults here.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import msgspec
import yaml
from msgspec import Struct

from windlass.core.names import check_name
from windlass.core.times import duration
from windlass.errors import InvalidTask, WindlassError
from windlass.stores.protocol import SESSION_TTL


class InvalidSettings(WindlassError, ValueError):
    """Settings that cannot be followed; every fault is named."""

    code = "invalid_settings"


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named set of workers that serve some queues."""

    name: str = "default"
    queues: tuple[str, ...] = ("default",)
    weights: tuple[int, ...] = ()
    """How often each queue is the first to be asked; empty for all alike."""
    size: int = 2
    """How many workers it starts with."""
    min: int = 0
    max: int = 64
    threads: int = 1
    """How many tasks a worker runs at once: `def` handlers in threads, `async def` ones on its loop."""
    recycle_after: int | None = None
    """A worker is replaced after so many tasks."""
    memory_limit: int | None = None
    """A worker is replaced, between tasks, when it holds more bytes than this."""

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
        if not 0 <= self.min <= self.max <= 1_000:
            found.append(f"{where}: min={self.min}, max={self.max} is no range; give 0 ≤ min ≤ max ≤ 1000")
        if not 0 <= self.size <= 1_000:
            found.append(f"{where}.size={self.size} is out of range; give 0 to 1000")
        if not 1 <= self.threads <= 1_000:
            found.append(f"{where}.threads={self.threads} is out of range; give 1 to 1000")
        if self.recycle_after is not None and self.recycle_after < 1:
            found.append(f"{where}.recycle_after={self.recycle_after} is out of range; give 1 or more")
        if self.memory_limit is not None and self.memory_limit < 1 << 20:
            found.append(f"{where}.memory_limit={self.memory_limit} is too little for any worker; give bytes")
        return found


class NodeSettings(Struct, frozen=True, kw_only=True):
    """One node."""

    app: str
    """Which app to serve, as in `shop:app`."""
    name: str = ""
    """What people call the node; the machine's name and the process id when empty."""
    pools: tuple[PoolSettings, ...] = (PoolSettings(),)
    tags: tuple[str, ...] = ()
    """What this machine has, for tasks that say `requires`."""
    drain_timeout: timedelta | None = timedelta(seconds=30)
    """How long a drain waits for running tasks before they are stopped and released; None for as long as they take."""
    pass_store_url: bool = False
    """Whether workers see the store's URL in their environment."""
    session_ttl: timedelta = SESSION_TTL
    """How long after its last renewal the node counts as lost."""

    def check(self) -> None:
        """Refuse what cannot be followed, all of it at once."""
        found = [fault for pool in self.pools for fault in pool.faults()]
        names = [pool.name for pool in self.pools]
        found += [
            f"pools.{name} stands twice; give each pool its own name" for name in {*names} if names.count(name) > 1
        ]
        if not timedelta(seconds=1) <= self.session_ttl <= timedelta(hours=1):
            found.append(f"session_ttl={self.session_ttl} is out of range; give one second to one hour")
        if not self.pools:
            found.append("pools is empty; a node without a pool would run nothing")
        if found:
            raise InvalidSettings("settings: " + "; ".join(found))


class FileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `windlass.yaml` may say."""

    app: str | None = None
    store: str | None = None
    name: str = ""
    tags: tuple[str, ...] = ()
    drain_timeout: timedelta | None = timedelta(seconds=30)
    pass_store_url: bool = False
    session_ttl: timedelta = SESSION_TTL
    pools: tuple[PoolSettings, ...] = ()


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
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InvalidSettings(f"settings: {chosen}: {error}") from error


def _pool(name: str, raw: object) -> object:
    """One pool of the file; what is none is left for the structs to refuse."""
    if not isinstance(raw, dict):
        return raw
    return {"queues": [name], **cast("dict[str, object]", raw), "name": name}


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
        limit = found.get(field)
        if isinstance(limit, str | int | float):
            found[field] = duration(limit, field) or None
    return found
