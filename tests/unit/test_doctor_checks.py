"""What the doctor makes of what it has measured."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from windlass.cli.doctor import filesystem
from windlass.cli.doctor_checks import HOUR, SECOND, Mark, Measured, diagnose, numbers
from windlass.core.lifecycle import State
from windlass.core.task import Rules, Task, TaskId
from windlass.stores.admin import Status

SQLITE = {"journal_mode": "wal", "synchronous": "full"}
POSTGRES = {
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "connections_used": "10",
    "in_recovery": "off",
}


def measured(kind: str = "sqlite", *, facts: dict[str, str] | None = None, **changes: Any) -> Measured:
    """A store with nothing wrong, but for these."""
    usual = SQLITE if kind == "sqlite" else POSTGRES
    status = {"version": "3.54.1" if kind == "sqlite" else "16.3", "schema": 3, "newest": 3}
    status |= {name: changes.pop(name) for name in list(changes) if name in status}
    return Measured(
        status=Status(kind=kind, bytes=1, tasks={}, sessions=0, facts={**usual, **(facts or {})}, **status),
        **{"skew": 0, "ttl": 15 * SECOND, "now": 10 * HOUR, **changes},
    )


def marks(seen: Measured) -> dict[str, Mark]:
    return {each.name: each.mark for each in diagnose(seen) if each.mark is not Mark.GOOD}


def a_run(since: int, **rules: Any) -> Task:
    return Task(
        id=TaskId(UUID(int=1)),
        handler="work",
        args="{}",
        state=State.LEASED,
        queue="q",
        tenant="t",
        due=0,
        submitted=0,
        claimed=since,
        rules=Rules(**rules),
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_is_said_against_a_healthy_store(kind: str) -> None:
    assert marks(measured(kind)) == {}


@pytest.mark.parametrize(
    ("seen", "name", "mark"),
    [
        (measured(version="3.45.0"), "version", Mark.BAD),
        (measured(version="3.51.2"), "version", Mark.BAD),
        (measured(schema=2), "schema", Mark.BAD),
        (measured(schema=4), "schema", Mark.BAD),
        (measured(facts={"synchronous": "normal"}), "durability", Mark.BAD),
        (measured(facts={"journal_mode": "delete"}), "durability", Mark.BAD),
        (measured(filesystem="nfs4"), "disk", Mark.BAD),
        (measured(free=50_000_000, disk=10**12), "space", Mark.BAD),
        (measured(free=30 * 10**9, disk=10**12), "space", Mark.DOUBT),
        (measured(skew=2 * SECOND), "clock", Mark.DOUBT),
        (measured(skew=-60 * SECOND), "clock", Mark.BAD),
        (measured(ttl=2 * SECOND), "session", Mark.DOUBT),
        (measured(ttl=600 * SECOND), "session", Mark.DOUBT),
        (measured(leased=[a_run(8 * HOUR)]), "runs", Mark.DOUBT),
        (measured("postgresql", version="12.9"), "version", Mark.BAD),
        (measured("postgresql", version="14.2 (Debian)"), "version", Mark.DOUBT),
        (measured("postgresql", facts={"fsync": "off"}), "durability", Mark.BAD),
        (measured("postgresql", facts={"in_recovery": "on"}), "primary", Mark.BAD),
        (measured("postgresql", nodes=6), "connections", Mark.DOUBT),
        (measured("postgresql", facts={"connections_used": "95"}), "connections", Mark.DOUBT),
    ],
)
def test_each_trouble_is_named_with_what_to_do(seen: Measured, name: str, mark: Mark) -> None:
    assert marks(seen) == {name: mark}
    assert all(each.fix for each in diagnose(seen) if each.mark is not Mark.GOOD)


@pytest.mark.parametrize(
    "seen",
    [
        measured(version="3.51.3"),
        measured(filesystem="ext4", free=10**11, disk=10**12),
        measured(skew=SECOND // 2),
        measured(leased=[a_run(8 * HOUR, timeout=timedelta(days=1)), a_run(9 * HOUR + HOUR // 2)]),
        measured(leased=[a_run(8 * HOUR, heartbeat_timeout=timedelta(seconds=9))]),
        measured("postgresql", version="14.4", nodes=4),
    ],
)
def test_what_is_well_enough_is_left_alone(seen: Measured) -> None:
    assert marks(seen) == {}


def test_versions_are_compared_by_their_numbers() -> None:
    assert numbers("16.3 (Debian 16.3-1.pgdg120+1)") == (16, 3)
    assert numbers("17beta1") == (17,)
    assert numbers("odd") == ()


def test_a_file_is_on_the_nearest_mount() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /srv/data nfs4 rw 0 0\ntmpfs /srv/data/fast tmpfs rw 0 0\n"

    assert filesystem(Path("/srv/data/w.db"), mounts) == "nfs4"
    assert filesystem(Path("/srv/data/fast/w.db"), mounts) == "tmpfs"
    assert filesystem(Path("/srv/database/w.db"), mounts) == "ext4"
    assert filesystem(Path("/x"), "") == ""
