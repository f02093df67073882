from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.laboratory import Laboratory, PromiseBroken
from tests.mutants.mutants import BOTH, MUTANTS, POSTGRES, SQLITE, Mutant

PLANTED = [
    pytest.param(mutant, dialect, id=f"{mutant.name} [{dialect}]") for mutant in MUTANTS for dialect in mutant.dialects
]
SCENARIOS = {(mutant.scenario.__name__, dialect): mutant for mutant in MUTANTS for dialect in mutant.dialects}


@pytest.mark.parametrize(
    ("mutant", "dialect"),
    [pytest.param(mutant, dialect, id=f"{name}-{dialect}") for (name, dialect), mutant in SCENARIOS.items()],
)
def test_the_stores_as_they_are_keep_the_promise(mutant: Mutant, laboratory: Laboratory) -> None:
    mutant.scenario(laboratory)

    assert laboratory.check() == []


@pytest.mark.parametrize(("mutant", "dialect"), PLANTED)
def test_the_mutant_is_caught_unless_a_second_wall_makes_it_harmless(mutant: Mutant, laboratory: Laboratory) -> None:
    mutant.plant(laboratory)

    if mutant.caught:
        with pytest.raises(PromiseBroken):
            mutant.scenario(laboratory)
    else:
        mutant.scenario(laboratory)


def test_the_list_in_words_is_the_list_that_is_planted() -> None:
    lines = Path(__file__).with_name("README.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith(("| M", "| X"))]

    stores = {BOTH: "both", POSTGRES: "PostgreSQL", SQLITE: "SQLite"}
    planted = [(one.name, one.scenario.__name__.replace("_", " "), one.caught, stores[one.dialects]) for one in MUTANTS]
    listed = [(name, caught_by, verdict == "caught", where) for name, caught_by, verdict, where in rows]
    assert [row for row in listed if row[3]] == planted
    assert {row[0].split()[0] for row in listed} >= {f"M{number}" for number in range(1, 17)}
