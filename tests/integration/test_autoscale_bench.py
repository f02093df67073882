"""The simulator and its benchmark: correct arithmetic and repeatable results."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from benchmarks.autoscale.__main__ import main
from benchmarks.autoscale.rivals import RIVALS
from windlass.simulation.bound import compute_bound, find_taut_string, sum_work
from windlass.simulation.load import Load, Storm, draw_poisson, lognormal
from windlass.simulation.policies import static, use_deciders
from windlass.simulation.run import SimulationResult, run
from windlass.simulation.simulated_pool import SimulatedPool

ROOT = Path(__file__).parents[2]


def short(seed: int = 0, length: int = 300, rate: float = 6.0, **more: object) -> Load:
    rng = Random(seed)
    service = lognormal(rng, 1.0, 1.0)
    arrivals = [(at, service()) for at in draw_poisson(rng, length, lambda _: rate)]
    fields = {"name": "short", "length": length, "wait": 5.0, "delay": 2.0, "arrivals": arrivals, "mean": 1.0}
    return Load(**{**fields, **more})  # pyright: ignore[reportArgumentType]


def test_no_work_is_lost_or_created() -> None:
    load, pool = short(), SimulatedPool(short(), 50)
    busy = completions = 0.0
    for _ in range(load.length):
        seen = pool.advance()
        busy, completions = busy + seen.busy, completions + seen.completions

    assert busy == pytest.approx(sum(min(service, load.length - at) for at, service in load.arrivals), rel=0.01)
    assert len(load.arrivals) - completions == sum(end > load.length for end in pool.free)


def test_a_killed_workers_task_runs_again() -> None:
    load = short(kill_every=30, kill_share=0.5)
    pool = SimulatedPool(load, 20)
    seen = [pool.advance() for _ in range(load.length)]

    assert sum(each.completions for each in seen) + seen[-1].running + seen[-1].queued == len(load.arrivals)
    assert all(each.ready + each.starting == 20 for each in seen)
    assert all(0 <= each.busy <= 20.001 for each in seen)


def test_failed_attempts_are_retried() -> None:
    load = short(storm=Storm(begin=50, end=100))
    pool = SimulatedPool(load, 30)
    seen = [pool.advance() for _ in range(load.length)]

    assert 0 < sum(each.retried for each in seen) <= sum(each.errors for each in seen)


def test_the_taut_string_is_straight_where_it_can_be() -> None:
    upper = sum_work(short())
    lower = [0.0] * 6 + upper[:-6]

    assert find_taut_string([0.0, 0.0, 5.0, 10.0], [0.0, 6.0, 11.0, 16.0])[0][1] == pytest.approx(10 / 3)
    assert len(find_taut_string(lower, upper)) < 30


def test_no_pool_that_meets_the_goal_is_cheaper_than_the_bound() -> None:
    load = short(length=900)
    limit = compute_bound(load)

    for size in range(5, 12):
        result = run(load, limit, "static", partial(static, size))
        assert result.score > 0.95


def test_every_rival_runs_and_the_controller_is_repeatable() -> None:
    load = short(length=120)
    limit = compute_bound(load)

    for settings in RIVALS.values():
        for start in settings.values():
            assert run(load, limit, "rival", start).score > 0
    assert run(load, limit, "slo", use_deciders("slo")) == run(load, limit, "slo", use_deciders("slo"))


def test_a_binned_trace_is_read_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "day.csv"
    trace.write_text("timestamp,value\n" + "".join(f"2024-01-01 00:{n:02}:00,{20 + n}\n" for n in range(12)))

    found = tmp_path / "found.json"
    asked = ["--traces", str(trace), "--scenarios", "none", "--deciders", "slo,static", "--delays", "forked", "--chart"]
    assert main([*asked, "--json", str(found)]) == 0

    results = msgspec.json.decode(found.read_bytes(), type=dict[str, list[SimulationResult]])
    assert results["slo"][0].load == "day (forked)"
    assert "lost by more than 20 %" in capsys.readouterr().out


def test_a_run_without_traces_prints_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenarios", "cron herd", "--delays", "forked"]) == 0

    assert "no traces" in capsys.readouterr().err


def test_the_number_of_processes_does_not_change_the_results(tmp_path: Path) -> None:
    asked = ["--scenarios", "tight,cron herd", "--delays", "forked", "--deciders", "static"]
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "benchmarks.autoscale", *asked, "--jobs", jobs, "--json", f"{tmp_path / jobs}"]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)

    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_unknown_policies_and_scenarios_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--deciders", "slo,magic"]) == 2
    assert main(["--scenarios", "step,magic"]) == 2

    error = capsys.readouterr().err
    assert "policy='magic'" in error
    assert "scenario 'magic'" in error
