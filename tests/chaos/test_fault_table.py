"""The table of faults in the docs says where each is tested."""

from __future__ import annotations

import re
from pathlib import Path

import tests.chaos.faults  # noqa: F401 - registers them
from tests.chaos.nemesis import DRAWN

ROOT = Path(__file__).parents[2]
IN_WORKLOAD = {20, 21, 22, 23, 37}
"""Faults that handlers of `tests.chaos.app` cause."""
BY_OPERATOR = {32}
"""Faults that the operator of `tests.chaos.workload` causes."""


def read_table() -> dict[int, str]:
    """Return where each fault is tested, by its number."""
    text = (ROOT / "docs" / "architecture" / "testing.md").read_text()
    return {int(number): where for number, where in re.findall(r"^\| F(\d+) \|.*\| (.+) \|$", text, re.MULTILINE)}


def test_every_fault_is_in_the_table_and_says_whether_chaos_draws_it() -> None:
    drawn = {int(match[1]) for name in DRAWN if (match := re.match(r"F(\d+) ", name))}

    assert [*read_table()] == [*range(1, 41)]
    assert {number for number, where in read_table().items() if where.startswith("chaos")} == (
        drawn | IN_WORKLOAD | BY_OPERATOR
    )


def test_every_file_in_the_table_exists() -> None:
    named = {path for where in read_table().values() for path in re.findall(r"`([^`]+)`", where)}

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_faults_of_the_workload_are_marked() -> None:
    marked = {number for number, where in read_table().items() if where.startswith("chaos (workload)")}

    assert marked == IN_WORKLOAD
