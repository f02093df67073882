"""That the simulator runs, is true to its own arithmetic, and says the same twice. Not how good anything is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

from benchmarks.autoscale.__main__ import main
from windlass.simulation.bound import compute_bound, sum_work, find_taut_string
from windlass.simulation.chance import lognormal, draw_poisson
from windlass.simulation.load import Load, Storm
from windlass.simulation.ours import use_deciders
from windlass.simulation.results import SimulationResult
from windlass.simulation.rivals import RIVALS
from windlass.simulation.rivals.limits import use_size
from windlass.simulation.score import run
from windlass.simulation.world import SimulatedPool

ROOT = Path(__file__).parents[2]


def short(seed: int = 0, length: int = 300, rate: float = 6.0, **more: object) -> Load:
    rng = Random(seed)
    service = lognormal(rng, 1.0, 1.0)
    arrivals = [(at, service()) for at in draw_poisson(rng, length, lambda _: rate)]
    told = {"name": "short", "length": length, "wait": 5.0, "delay": 2.0, "arrivals": arrivals, "mean": 1.0}
    return Load(**{**told, **more})  # pyright: ignore[reportArgumentType]


def test_work_is_neither_lost_nor_made() -> None:
    load, world = short(), SimulatedPool(short(), 50)
    busy = completions = 0.0
    for _ in range(load.length):
        seen = world.advance()
        busy, completions = busy + seen.busy, completions + seen.completions

    assert busy == pytest.approx(sum(min(service, load.length - at) for at, service in load.arrivals), rel=0.01)
    assert len(load.arrivals) - completions == sum(end > load.length for end in world.free)


def test_a_killed_workers_task_runs_again() -> None:
    load = short(kill_every=30, kill_share=0.5)
    world = SimulatedPool(load, 20)
    seen = [world.advance() for _ in range(load.length)]

    assert sum(each.completions for each in seen) + seen[-1].running + seen[-1].queued == len(load.arrivals)
    assert all(each.ready + each.starting == 20 for each in seen)
    assert all(0 <= each.busy <= 20.001 for each in seen)


def test_failed_attempts_are_tried_again() -> None:
    load = short(storm=Storm(begin=50, end=100))
    world = SimulatedPool(load, 30)
    seen = [world.advance() for _ in range(load.length)]

    assert 0 < sum(each.retried for each in seen) <= sum(each.errors for each in seen)


def test_the_string_stays_between_the_curves_and_is_straight_if_it_can_be() -> None:
    upper = sum_work(short())
    lower = [0.0] * 6 + upper[:-6]

    assert find_taut_string([0.0, 0.0, 5.0, 10.0], [0.0, 6.0, 11.0, 16.0])[0][1] == pytest.approx(10 / 3)
    assert len(find_taut_string(lower, upper)) < 30


def test_nobody_who_meets_the_goal_is_cheaper_than_the_bound() -> None:
    load = short(length=900)
    limit = compute_bound(load)

    for size in range(5, 12):
        result = run(load, limit, "static", use_size(size))
        assert result.score > 0.95


def test_every_rival_runs_and_ours_gives_the_same_numbers_twice() -> None:
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


def test_without_traces_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenarios", "cron herd", "--delays", "forked"]) == 0

    assert "no traces" in capsys.readouterr().err


def test_processes_side_by_side_find_the_same(tmp_path: Path) -> None:
    asked = ["--scenarios", "tight,cron herd", "--delays", "forked", "--deciders", "static"]
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "benchmarks.autoscale", *asked, "--jobs", jobs, "--json", f"{tmp_path / jobs}"]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)

    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_what_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--deciders", "slo,magic"]) == 2
    assert main(["--scenarios", "step,magic"]) == 2

    said = capsys.readouterr().err
    assert "policy='magic'" in said
    assert "scenario 'magic'" in said
