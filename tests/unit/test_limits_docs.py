"""docs/reference/limits.md has the values of the code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.config import PoolSettings
from windlass.core.names import check_name, check_text
from windlass.errors import WindlassError
from windlass.server.routes.tasks import FindTasks

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "limits.md").read_text()
ROWS = re.findall(r"^\| (.+) \| ([\d,]+ ?[^|]*) \| `(windlass\.[\w.]+)` \|$", PAGE, re.MULTILINE)


def is_accepted(call: Callable[[], object]) -> bool:
    try:
        call()
    except (WindlassError, msgspec.ValidationError):
        return False
    return True


CHECKS: dict[object, Callable[[int], bool]] = {
    check_name: lambda size: is_accepted(lambda: check_name("queue", "x" * size)),
    check_text: lambda size: is_accepted(lambda: check_text("key", "x" * size)),
    FindTasks: lambda size: is_accepted(lambda: msgspec.convert({"limit": size}, FindTasks)),
    PoolSettings: lambda size: not PoolSettings(size=size).faults(),
}
"""Limits that are not constants: whether a number is accepted."""


def find(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("limit", "value", "dotted"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_limit_matches_the_page(limit: str, value: str, dotted: str) -> None:
    amount, _, unit = value.partition(" ")
    number, constant = int(amount.replace(",", "")), find(dotted)

    if constant in CHECKS:
        assert CHECKS[constant](number), limit
        assert not CHECKS[constant](number + 1), limit
    else:
        assert constant == (timedelta(**{unit: number}) if isinstance(constant, timedelta) else number), limit


def test_every_row_of_the_table_is_checked() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| limit |")]

    assert len(rows) == len(ROWS) >= 25
