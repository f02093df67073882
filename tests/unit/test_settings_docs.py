"""docs/reference/settings.md lists exactly the existing settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from windlass.autoscale.settings import Settings
from windlass.config import BudgetSettings, FileSettings, PoolSettings, SignalSettings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
OURS = {"Settings": {"min", "max"}, "PoolSettings": {"name"}}
"""Fields that are elsewhere in the file: bounds belong to the pool, and its name is the key."""


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("The file", FileSettings),
        ("`budget`", BudgetSettings),
        ("A pool", PoolSettings),
        ("`scale`", Settings),
        ("A signal", SignalSettings),
    ],
)
def test_the_page_lists_every_setting(section: str, kind: type) -> None:
    first_cells = re.findall(r"^\| (`.+?) \|", SECTIONS[section], re.MULTILINE)
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}

    assert named == {field.name for field in fields(kind)} - OURS.get(kind.__name__, set())
