"""The benchmarks run and return numbers. Their speed is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RATES = {"w1", "w1_threads", "w1_tasks", "w1_bulk", "w2"}
TIMES = {"w5_fan", "w5_chain"}


def test_the_workloads_return_numbers(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    asked = ["--quick", "--peers", "none", "--store", "sqlite", "--only", "W1,W2,W5", "--json", str(found)]

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.workloads", *asked],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    results = json.loads(found.read_text())["results"]
    assert results["windlass (sqlite)"].keys() == RATES | TIMES
    assert results["bare statements (sqlite)"].keys() == {"w1", "w1_bulk", "w2"}
    for system in results.values():
        for rounds in system.values():
            assert all(isinstance(number, float) and number > 0 for number in rounds), done.stderr
    assert "W2 drain" in done.stdout


def test_an_unknown_peer_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.workloads", "--peers", "nobody"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "Unknown peer: nobody" in done.stderr


def test_the_graphs_run_on_sqlite() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.graphs", "--store", "sqlite", "--tasks", "30"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert "retry from the root (30)" in done.stdout
