"""What `windlass doctor` makes of what it has measured: pure, one function for each thing that can be wrong.

Each answers with a mark, what it saw, and what to do. Only ✗ is something that breaks a promise; ⚠ is worth a thought.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from windlass.cli.time_options import length
from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.stores.admin import Status

CONNECTIONS_OF_A_NODE = 18
"""What a node opens at the most: two stores of eight connections, each with one that listens."""
SECOND: Micros = 1_000_000
HOUR = 3_600 * SECOND

_NETWORK = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "lustre", "afs", "gfs2", "ocfs2")


class Mark(StrEnum):
    """How good it is."""

    GOOD = "✓"
    DOUBT = "⚠"
    BAD = "✗"


class Diagnosis(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    mark: Mark
    text: str
    fix: str = ""


class Measured(Struct, frozen=True, kw_only=True):
    """What was found out about a store and the machine it is looked at from."""

    status: Status
    skew: Micros
    """By how much the store's clock is ahead of the machine's."""
    filesystem: str = ""
    """What kind of disk a file is on; empty where that is not known."""
    free: int | None = None
    """Bytes left on that disk."""
    disk: int | None = None
    ttl: Micros
    nodes: int = 0
    leased: Sequence[Task] = ()
    now: Micros


def diagnose(seen: Measured) -> Iterator[Diagnosis]:
    """Everything, in the order in which it should be mended."""
    yield _version(seen.status)
    yield _schema(seen.status)
    yield from (_sqlite if seen.status.kind == "sqlite" else _postgres)(seen)
    yield _clock(seen)
    yield _ttl(seen)
    yield _runs(seen)


def _version(status: Status) -> Diagnosis:
    text = f"{status.kind} {status.version}"
    number = numbers(status.version)
    if status.kind == "sqlite":
        if (3, 7, 0) <= number < (3, 51, 3):
            fix = "upgrade apsw to 3.51.3 or later, which carries its own SQLite"
            return _bad("version", f"{text} can corrupt a file when its WAL is reset at a bad moment", fix)
        return _good("version", text)
    if number < (13,):
        return _bad("version", f"{text} is too old: 13 is needed", "upgrade PostgreSQL")
    if (14, 0) <= number < (14, 4):
        text += " can leave an index damaged that was built concurrently"
        return _doubt("version", text, "upgrade to 14.4 or later, and reindex")
    return _good("version", text)


def _schema(status: Status) -> Diagnosis:
    if status.schema < status.newest:
        text = f"the tables are at version {status.schema}, this Windlass knows {status.newest}"
        return _bad("schema", text, "windlass db migrate")
    if status.schema > status.newest:
        text = f"the tables are at version {status.schema}, this Windlass knows only {status.newest}"
        return _bad("schema", text, "upgrade Windlass here")
    return _good("schema", f"version {status.schema}, the newest")


def _sqlite(seen: Measured) -> Iterator[Diagnosis]:
    facts = seen.status.facts
    durable = facts.get("journal_mode") == "wal" and facts.get("synchronous") in ("full", "extra")
    said = f"journal_mode={facts.get('journal_mode')}, synchronous={facts.get('synchronous')}"
    yield (
        _good("durability", said)
        if durable
        else _bad(
            "durability",
            f"{said}: what was acknowledged may be lost",
            "windlass db migrate, which opens it as it must be",
        )
    )
    if seen.filesystem.startswith(_NETWORK):
        text = f"the file is on {seen.filesystem}: WAL needs memory that all its users share, and locks that hold"
        yield _bad("disk", text, "move the file to a disk of this machine, or use PostgreSQL")
    else:
        yield _good("disk", f"the file is on {seen.filesystem or 'a disk of unknown kind'}")
    yield from _space(seen)


def _space(seen: Measured) -> Iterator[Diagnosis]:
    if seen.free is None or not seen.disk:
        return
    text = f"{seen.free / 1e9:.3g} GB of {seen.disk / 1e9:.3g} GB are free"
    if seen.free < 100_000_000:
        yield _bad("space", text, "make room: without it nothing can be acknowledged")
    elif seen.free < 1_000_000_000 or seen.free < seen.disk / 20:
        yield _doubt("space", text, "make room, or purge: windlass tasks purge state:completed")
    else:
        yield _good("space", text)


def _postgres(seen: Measured) -> Iterator[Diagnosis]:
    facts = seen.status.facts
    wrong = [f"{name}={facts[name]}" for name in ("fsync", "full_page_writes") if facts.get(name) != "on"]
    if wrong:
        text = f"{', '.join(wrong)}: a crash of its machine could lose acknowledged tasks"
        yield _bad("durability", text, "set them on, and restart the server")
    else:
        yield _good("durability", "fsync=on, full_page_writes=on; each of our commits waits for the disk")
    if facts.get("in_recovery") == "on":
        yield _bad("primary", "this server is a standby, and takes no tasks", "name the primary in the URL")
    yield _connections(seen)


def _connections(seen: Measured) -> Diagnosis:
    most, used = (int(seen.status.facts.get(name) or 0) for name in ("max_connections", "connections_used"))
    wanted = seen.nodes * CONNECTIONS_OF_A_NODE
    text = f"{used} of {most} in use; {seen.nodes} node(s) may want {wanted}"
    if max(used, wanted) > most * 0.8:
        return _doubt("connections", text, "raise max_connections, or put PgBouncer before it (?pooler=transaction)")
    return _good("connections", text)


def _clock(seen: Measured) -> Diagnosis:
    size, side = abs(seen.skew), "ahead of" if seen.skew > 0 else "behind"
    if size < SECOND:
        return _good("clock", "the store's clock and this machine's agree within a second")
    text = f"the store's clock is {length(size)} {side} this machine's"
    fix = "keep both in time (chrony, systemd-timesyncd): crons fire by the machine's, leases end by the store's"
    return (_bad if size > 30 * SECOND else _doubt)("clock", text, fix)


def _ttl(seen: Measured) -> Diagnosis:
    text = f"a node counts as lost after {length(seen.ttl)} of silence"
    if seen.ttl < 5 * SECOND:
        return _doubt("session", f"{text}: a busy machine may pause for as long", "session_ttl: 15s in windlass.yaml")
    if seen.ttl > 120 * SECOND:
        return _doubt("session", f"{text}: for so long its tasks wait", "session_ttl: 15s in windlass.yaml")
    return _good("session", text)


def _runs(seen: Measured) -> Diagnosis:
    """A run may take longer than a session's time to live, which is renewed; only nobody should forget it."""
    endless = [task for task in seen.leased if not (task.rules.timeout or task.rules.heartbeat_timeout)]
    longest = max(endless, key=lambda task: seen.now - (task.claimed or seen.now), default=None)
    ran = 0 if longest is None else seen.now - (longest.claimed or seen.now)
    if longest is None or ran < HOUR:
        return _good("runs", "no task has run for over an hour without a time limit")
    text = f"{longest.handler} {longest.id} has run for {length(ran)}, and has no time limit"
    return _doubt("runs", text, "give it timeout= or heartbeat_timeout=, so that a hang is told from slow work")


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, as they are compared.

    >>> numbers("16.3 (Debian 16.3-1)")
    (16, 3)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return () if found is None else tuple(map(int, found[0].split(".")))


def _good(name: str, text: str, fix: str = "") -> Diagnosis:
    return Diagnosis(name=name, mark=Mark.GOOD, text=text, fix=fix)


def _doubt(name: str, text: str, fix: str) -> Diagnosis:
    return Diagnosis(name=name, mark=Mark.DOUBT, text=text, fix=fix)


def _bad(name: str, text: str, fix: str) -> Diagnosis:
    return Diagnosis(name=name, mark=Mark.BAD, text=text, fix=fix)
