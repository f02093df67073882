"""The table of planted mistakes in the docs says which layer catches which."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.formal.spin import MISTAKES as FORMAL
from tests.mutants import mutants as races
from tests.properties.test_model_mutants import MUTANTS as MODEL
from tests.simulation.mutants import MUTANTS as SIMULATED

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "testing.md"
PLANNED = [f"M{number}" for number in range(1, 17)]


def numbers(names: Iterable[str]) -> set[str]:
    return {match.group() for name in names if (match := re.match(r"M\d+", name))}


def test_the_table_shows_which_layer_catches_which_mistake() -> None:
    layers = [
        numbers(mutant.name for mutant in races.MUTANTS if mutant.caught),
        numbers(mutant.__doc__ or "" for mutant in MODEL),
        numbers(SIMULATED),
        numbers(name for mistakes in FORMAL.values() for name in mistakes),
    ]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| M\d+ \|", line)
    ]

    assert {row[0]: [cell == "✓" for cell in row[2:]] for row in rows} == {
        number: [number in layer for layer in layers] for number in PLANNED
    }
