"""The simulation catches planted mistakes, each within a few hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.run import Mutant
from tests.simulation.search import survey

MOST_SEEDS = 1_000
"""The rarest is caught after two hundred."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_simulation_catches(mutant: Mutant, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")

    totals = survey(range(MOST_SEEDS), mutant=mutant)

    assert totals.failures, f"{mutant.name} survived {totals.seeds} seeds"
    [findings] = totals.failures.values()
    # A mutant that only makes a thread raise would be one that no longer fits the code.
    assert any(not finding.startswith("node: ") for finding in findings), findings
