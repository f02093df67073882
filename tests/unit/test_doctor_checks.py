"""The checks of `windlass doctor`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from windlass.cli.doctor import find_filesystem
from windlass.cli.doctor_checks import HOUR, SECOND, Facts, parse_version, run_checks
from windlass.core.lifecycle import State
from windlass.core.task import Rules, Task, TaskId
from windlass.stores.admin import Status
from windlass.wire.commands import Mark

SQLITE = {"journal_mode": "wal", "synchronous": "full"}
POSTGRES = {
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "connections_used": "10",
    "in_recovery": "off",
    "standbys": "0",
    "synchronous_standby_names": "",
}


def make_facts(kind: str = "sqlite", *, facts: dict[str, str] | None = None, **changes: Any) -> Facts:
    """Return the facts of a healthy store, with these changes."""
    usual = SQLITE if kind == "sqlite" else POSTGRES
    status = {"version": "3.54.1" if kind == "sqlite" else "16.3", "schema": 3, "compatible_from": 2, "newest": 3}
    status |= {name: changes.pop(name) for name in list(changes) if name in status}
    return Facts(
        status=Status(kind=kind, bytes=1, tasks={}, sessions=0, facts={**usual, **(facts or {})}, **status),
        **{"skew": 0, "ttl": 15 * SECOND, "now": 10 * HOUR, **changes},
    )


def marks(facts: Facts) -> dict[str, Mark]:
    return {each.name: each.mark for each in run_checks(facts) if each.mark is not Mark.GOOD}


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
def test_a_healthy_store_has_no_problems(kind: str) -> None:
    assert marks(make_facts(kind)) == {}


@pytest.mark.parametrize(
    ("facts", "name", "mark"),
    [
        (make_facts(version="3.45.0"), "version", Mark.BAD),
        (make_facts(version="3.51.2"), "version", Mark.BAD),
        (make_facts(schema=2), "schema", Mark.BAD),
        (make_facts(schema=4, compatible_from=3), "schema", Mark.WARNING),
        (make_facts(schema=5, compatible_from=4), "schema", Mark.BAD),
        (make_facts(facts={"synchronous": "normal"}), "durability", Mark.BAD),
        (make_facts(facts={"journal_mode": "delete"}), "durability", Mark.BAD),
        (make_facts(filesystem="nfs4"), "disk", Mark.BAD),
        (make_facts(free=50_000_000, disk=10**12), "space", Mark.BAD),
        (make_facts(free=30 * 10**9, disk=10**12), "space", Mark.WARNING),
        (make_facts(skew=2 * SECOND), "clock", Mark.WARNING),
        (make_facts(skew=-60 * SECOND), "clock", Mark.BAD),
        (make_facts(ttl=2 * SECOND), "session", Mark.WARNING),
        (make_facts(ttl=600 * SECOND), "session", Mark.WARNING),
        (make_facts(leased=[a_run(8 * HOUR)]), "runs", Mark.WARNING),
        (make_facts("postgresql", version="12.9"), "version", Mark.BAD),
        (make_facts("postgresql", version="14.2 (Debian)"), "version", Mark.WARNING),
        (make_facts("postgresql", facts={"fsync": "off"}), "durability", Mark.BAD),
        (make_facts("postgresql", facts={"in_recovery": "on"}), "primary", Mark.BAD),
        (make_facts("postgresql", facts={"standbys": "1"}), "replication", Mark.WARNING),
        (make_facts("postgresql", nodes=6), "connections", Mark.WARNING),
        (make_facts("postgresql", facts={"connections_used": "95"}), "connections", Mark.WARNING),
    ],
)
def test_each_problem_has_a_fix(facts: Facts, name: str, mark: Mark) -> None:
    assert marks(facts) == {name: mark}
    assert all(each.fix for each in run_checks(facts) if each.mark is not Mark.GOOD)


@pytest.mark.parametrize(
    "facts",
    [
        make_facts(version="3.51.3"),
        make_facts(filesystem="ext4", free=10**11, disk=10**12),
        make_facts(skew=SECOND // 2),
        make_facts(leased=[a_run(8 * HOUR, timeout=timedelta(days=1)), a_run(9 * HOUR + HOUR // 2)]),
        make_facts(leased=[a_run(8 * HOUR, heartbeat_timeout=timedelta(seconds=9))]),
        make_facts("postgresql", version="14.4", nodes=4),
        make_facts("postgresql", facts={"standbys": "hidden"}),
        make_facts("postgresql", facts={"standbys": "2", "synchronous_standby_names": "ANY 1 (a, b)"}),
    ],
)
def test_acceptable_values_are_good(facts: Facts) -> None:
    assert marks(facts) == {}


def test_the_warning_about_a_standby_names_the_danger_and_the_setting() -> None:
    [found] = [
        each for each in run_checks(make_facts("postgresql", facts={"standbys": "2"})) if each.name == "replication"
    ]

    assert found.text.startswith("2 standbys follow")
    assert "acknowledged tasks may be lost in a failover" in found.text
    assert "synchronous_standby_names" in found.fix


def test_without_a_standby_there_is_no_check_of_replication() -> None:
    names = [each.name for each in run_checks(make_facts("postgresql"))]

    assert "replication" not in names


def test_versions_are_compared_by_their_parse_version() -> None:
    assert parse_version("16.3 (Debian 16.3-1.pgdg120+1)") == (16, 3)
    assert parse_version("17beta1") == (17,)
    assert parse_version("odd") == ()


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /srv/data nfs4 rw 0 0\ntmpfs /srv/data/fast tmpfs rw 0 0\n"

    assert find_filesystem(Path("/srv/data/w.db"), mounts) == "nfs4"
    assert find_filesystem(Path("/srv/data/fast/w.db"), mounts) == "tmpfs"
    assert find_filesystem(Path("/srv/database/w.db"), mounts) == "ext4"
    assert find_filesystem(Path("/x"), "") == ""
