"""The checks of `windlass doctor`, one function each. Pure.

A check returns a mark, what it found and what to do. ✗ breaks a promise of Windlass; ⚠ deserves a look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.deploy.rights import api_rights, node_rights, read_rights
from windlass.operations.presentation import format_span
from windlass.stores.admin import Rights, Status
from windlass.wire.commands import CheckResult, Mark

CONNECTIONS_OF_A_NODE = 18
"""Most connections of a node: two stores of eight connections, each with one that listens."""
SECOND: Micros = 1_000_000
HOUR = 3_600 * SECOND

_NETWORK = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "lustre", "afs", "gfs2", "ocfs2")


class Facts(Struct, frozen=True, kw_only=True):
    """Facts about a store and this machine."""

    status: Status
    skew: Micros
    """How far the store's clock is ahead of the machine's."""
    filesystem: str = ""
    """The kind of file system of a SQLite file; empty if unknown."""
    free: int | None = None
    """Free bytes on its disk."""
    disk: int | None = None
    ttl: Micros
    nodes: int = 0
    leased: Sequence[Task] = ()
    now: Micros
    rights: Rights | None = None
    """What the role of the store's URL may do, in PostgreSQL."""


def run_checks(facts: Facts) -> Iterator[CheckResult]:
    """Yield the result of every check, in the order in which to fix problems."""
    yield _version(facts.status)
    yield _schema(facts.status)
    yield from (_sqlite if facts.status.kind == "sqlite" else _postgres)(facts)
    yield _clock(facts)
    yield _ttl(facts)
    yield _runs(facts)


def _version(status: Status) -> CheckResult:
    text = f"{status.kind} {status.version}"
    number = parse_version(status.version)
    if status.kind == "sqlite":
        if (3, 7, 0) <= number < (3, 51, 3):
            fix = "upgrade apsw to 3.51.3 or later, which includes SQLite"
            return _bad("version", f"{text} can corrupt the file when its WAL is reset", fix)
        return _good("version", text)
    if number < (13,):
        return _bad("version", f"{text} is too old: 13 is required", "upgrade PostgreSQL")
    if (14, 0) <= number < (14, 4):
        text += " can damage an index that is built concurrently"
        return _warning("version", text, "upgrade to 14.4 or later and reindex")
    return _good("version", text)


def _schema(status: Status) -> CheckResult:
    if status.schema < status.newest:
        text = f"the tables are at version {status.schema}, this Windlass expects {status.newest}"
        return _bad("schema", text, "run `windlass db migrate`")
    if status.schema > status.newest:
        text = f"the tables are at version {status.schema}, this Windlass only knows {status.newest}"
        if status.is_usable:
            return _warning("schema", f"{text}, which can still use them", "upgrade Windlass here")
        return _bad("schema", text, "upgrade Windlass here")
    return _good("schema", f"version {status.schema}, the latest")


def _sqlite(facts: Facts) -> Iterator[CheckResult]:
    known = facts.status.facts
    durable = known.get("journal_mode") == "wal" and known.get("synchronous") in ("full", "extra")
    modes = f"journal_mode={known.get('journal_mode')}, synchronous={known.get('synchronous')}"
    yield (
        _good("durability", modes)
        if durable
        else _bad(
            "durability",
            f"{modes}: acknowledged tasks may be lost",
            "run `windlass db migrate`, which sets both",
        )
    )
    if facts.filesystem.startswith(_NETWORK):
        text = f"the file is on {facts.filesystem}: WAL needs shared memory and reliable locks"
        yield _bad("disk", text, "move the file to a local disk, or use PostgreSQL")
    else:
        yield _good("disk", f"the file is on {facts.filesystem or 'an unknown file system'}")
    yield from _space(facts)


def _space(facts: Facts) -> Iterator[CheckResult]:
    if facts.free is None or not facts.disk:
        return
    text = f"{facts.free / 1e9:.3g} GB of {facts.disk / 1e9:.3g} GB are free"
    if facts.free < 100_000_000:
        yield _bad("space", text, "free disk space: without it no task can be accepted")
    elif facts.free < 1_000_000_000 or facts.free < facts.disk / 20:
        yield _warning("space", text, "free disk space, or delete tasks: windlass tasks purge state:completed")
    else:
        yield _good("space", text)


def _postgres(facts: Facts) -> Iterator[CheckResult]:
    known = facts.status.facts
    wrong = [f"{name}={known[name]}" for name in ("fsync", "full_page_writes") if known.get(name) != "on"]
    if wrong:
        text = f"{', '.join(wrong)}: a crash of its machine could lose acknowledged tasks"
        yield _bad("durability", text, "turn them on and restart the server")
    else:
        yield _good("durability", "fsync=on, full_page_writes=on; every commit waits for the disk")
    if known.get("in_recovery") == "on":
        yield _bad("primary", "this server is a standby and accepts no tasks", "use the URL of the primary")
    else:
        yield from _replication(known)
    yield _connections(facts)
    if facts.rights is not None and facts.status.is_usable:
        yield _rights(facts.rights)


def _replication(known: Mapping[str, str]) -> Iterator[CheckResult]:
    """Warn if a standby follows that may lag. Not if the role cannot see standbys."""
    standbys, names = known.get("standbys", "0"), known.get("synchronous_standby_names")
    if standbys == "hidden":
        yield _good("replication", "this role cannot see whether a standby follows: it lacks pg_read_all_stats")
    elif standbys != "0":
        count = "1 standby follows" if standbys == "1" else f"{standbys} standbys follow"
        if names:
            yield _good("replication", f"{count}, synchronous_standby_names={names}")
        else:
            text = f"{count}, synchronous_standby_names is empty: acknowledged tasks may be lost in a failover"
            yield _warning("replication", text, "set synchronous_standby_names, so that commits wait for a standby")


def _connections(facts: Facts) -> CheckResult:
    most, used = (int(facts.status.facts.get(name) or 0) for name in ("max_connections", "connections_used"))
    wanted = facts.nodes * CONNECTIONS_OF_A_NODE
    nodes = "1 node" if facts.nodes == 1 else f"{facts.nodes} nodes"
    text = f"{used} of {most} in use; {nodes} may need {wanted}"
    if max(used, wanted) > most * 0.8:
        return _warning("connections", text, "raise max_connections, or use PgBouncer (?pooler=transaction)")
    return _good("connections", text)


def _rights(found: Rights) -> CheckResult:
    """Compare what the role may do with what the programs need."""
    if found.superuser:
        text = f"role {found.role} is a superuser: anyone who has the URL controls the whole server"
        return _warning("rights", text, "create another role: windlass deploy role")
    missing = {
        who: [
            f"{verb} on {table}" for table, verbs in needed.items() for verb in verbs if verb not in found.verbs[table]
        ]
        for who, needed in (("all programs", api_rights()), ("nodes", node_rights()), ("reading", read_rights()))
    }
    enough = next((who for who, lacks in missing.items() if not lacks), None)
    can_write = any(verbs > {"SELECT"} for verbs in found.verbs.values())
    if enough is None or (enough == "reading" and can_write):
        lacks = missing["nodes"]
        text = f"role {found.role} lacks {', '.join(lacks[:3])}" + (f" and {len(lacks) - 3} more" * (len(lacks) > 3))
        return _bad("rights", text, "grant them: windlass deploy roles")
    return _good("rights", f"role {found.role} has the rights for {enough}")


def _clock(facts: Facts) -> CheckResult:
    size, side = abs(facts.skew), "ahead of" if facts.skew > 0 else "behind"
    if size < SECOND:
        return _good("clock", "the clocks of the store and this machine agree within a second")
    text = f"the store's clock is {format_span(size)} {side} this machine's"
    fix = "synchronize both (chrony, systemd-timesyncd): crons use the machine's clock, leases the store's"
    return (_bad if size > 30 * SECOND else _warning)("clock", text, fix)


def _ttl(facts: Facts) -> CheckResult:
    text = f"a node is lost after {format_span(facts.ttl)} without a renewal"
    if facts.ttl < 5 * SECOND:
        return _warning("session", f"{text}: a busy machine may pause that long", "session_ttl: 15s in windlass.yaml")
    if facts.ttl > 120 * SECOND:
        return _warning("session", f"{text}: its tasks wait that long", "session_ttl: 15s in windlass.yaml")
    return _good("session", text)


def _runs(facts: Facts) -> CheckResult:
    """Warn about long runs without a time limit."""
    endless = [task for task in facts.leased if not (task.rules.timeout or task.rules.heartbeat_timeout)]
    longest = max(endless, key=lambda task: facts.now - (task.claimed or facts.now), default=None)
    ran = 0 if longest is None else facts.now - (longest.claimed or facts.now)
    if longest is None or ran < HOUR:
        return _good("runs", "no task without a time limit has run for over an hour")
    text = f"{longest.handler} {longest.id} has run for {format_span(ran)} and has no time limit"
    return _warning("runs", text, "set timeout= or heartbeat_timeout=, so that a stuck task ends")


def parse_version(version: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    >>> parse_version("16.3 (Debian 16.3-1)")
    (16, 3)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return () if found is None else tuple(map(int, found[0].split(".")))


def _good(name: str, text: str, fix: str = "") -> CheckResult:
    return CheckResult(name=name, mark=Mark.GOOD, text=text, fix=fix)


def _warning(name: str, text: str, fix: str) -> CheckResult:
    return CheckResult(name=name, mark=Mark.WARNING, text=text, fix=fix)


def _bad(name: str, text: str, fix: str) -> CheckResult:
    return CheckResult(name=name, mark=Mark.BAD, text=text, fix=fix)
