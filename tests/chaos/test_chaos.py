from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("postgres", 6),
        pytest.param("sqlite", 600, marks=pytest.mark.soak),
        pytest.param("postgres", 600, marks=pytest.mark.soak),
    ],
)
def test_a_cluster_keeps_its_promises_while_it_is_broken(kind: str, seconds: float, tmp_path: Path) -> None:
    verdict = run(tmp_path, kind=kind, seed=17, seconds=seconds, rate=20, ttl=5)

    assert verdict.is_clean, str(verdict)
    assert verdict.report.acknowledged > seconds
    assert verdict.faults
