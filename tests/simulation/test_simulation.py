"""The whole cluster in virtual time. `python -m tests.simulation` runs the same from the command line."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checker.records import Recording
from tests.checker.report import check
from tests.simulation.__main__ import describe_failure, main
from tests.simulation.cluster import World
from tests.simulation.faults import CHANCES, KINDS, Faults
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import run
from tests.simulation.scheduler import Process
from tests.simulation.search import shrink, survey
from tests.simulation.workload import MANIFEST

SEEDS, PARTS = 2_000, 4
SOAK_SECONDS = float(os.environ.get("WINDLASS_SOAK_SECONDS", "3600"))
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_promise(part: int) -> None:
    seeds = range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)

    totals = survey(seeds)

    for seed, findings in totals.failures.items():
        pytest.fail(describe_failure(seed, findings))
    assert (totals.seeds, totals.lost, totals.double_outcomes) == (len(seeds), 0, 0)
    assert totals.duplicate_runs, "no handler ran twice, so the faults do not reach what they are for"
    assert totals.recoveries, "no killed node held a task"


@pytest.mark.soak
def test_no_seed_breaks_a_promise_for_hours() -> None:
    started = time.time()
    first = int(started) * 1_000  # Other seeds every time.

    assert (
        main(["--seeds", f"{first}:{first}", "--seconds", str(SOAK_SECONDS), "--jobs", str(os.cpu_count() or 1)]) == 0
    )


def test_the_same_seed_gives_the_same_trace() -> None:
    seeds = range(20)
    first = [run(seed, digest=True).digest for seed in seeds]

    again = [run(seed, digest=True, trace=True).digest for seed in seeds]

    assert again == first
    assert len({*first}) == len(first)


def test_another_process_gives_the_same_trace() -> None:
    seeds = [*range(8), 2958]
    command = f"from tests.simulation.run import run; print([run(seed, digest=True).digest for seed in {seeds}])"

    outputs = [
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    ]

    assert outputs[0] == outputs[1] == f"{[run(seed, digest=True).digest for seed in seeds]}\n"


def test_a_run_leaves_nothing_in_memory() -> None:
    """Some of these end while the nemesis still waits. Hours of runs would fill the memory."""
    for seed in range(50, 120):
        run(seed)
    gc.collect()

    assert [one.name for one in gc.get_objects() if isinstance(one, Process)] == []


def test_every_kind_of_fault_is_drawn_by_some_seeds_and_none_by_others() -> None:
    drawn = [run(seed).faults.kinds for seed in range(60)]

    assert frozenset().union(*drawn) == frozenset(KINDS)
    assert frozenset() in drawn


@pytest.mark.parametrize(
    ("seed", "late_commits"),
    [
        pytest.param(7529, None, id="the clock jumps while the only node is paused"),
        pytest.param(23354, None, id="poison opens the breaker of its downstream again"),
        pytest.param(40067, None, id="a handler submits when its node continues after a pause"),
        pytest.param(41563, None, id="the clock jumps while a node drains"),
        pytest.param(741, 0.3, id="a renewal is committed after its node was killed"),
        pytest.param(6726, 0.3, id="a drain while the store has a session that the node dropped"),
        pytest.param(20475, 0.3, id="two threads close a session when the node ends"),
        pytest.param(37280, 0.3, id="a late retry of tasks that others now wait for"),
    ],
)
def test_a_seed_that_failed_once_is_clean(
    seed: int, late_commits: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHANCES, "late_commits", late_commits or CHANCES["late_commits"])

    assert run(seed).findings == []


def test_a_clock_jump_moves_the_ends_of_the_faults_under_way() -> None:
    world = World(0, Faults(kinds=frozenset(), until=0), MANIFEST)
    start = world.store.clock.now() / 1e6
    over, pause = world.add_fault("outage", "", 0.0), world.add_fault("pause", "node-0", 3.0)

    world.jump_clock(4.5)

    jump = world.store.records[-1]
    assert (over.end, pause.end) == (start, start + 7.5)
    assert (jump.start, jump.end) == (start, start + 4.5) == (start, world.store.clock.now() / 1e6)


def test_a_failing_seed_is_printed_with_the_command_that_replays_it() -> None:
    mutant = MUTANTS["N1 a result of unknown outcome dropped"]

    [(seed, findings)] = survey(range(300), mutant=mutant).failures.items()

    text = describe_failure(seed, findings)
    assert f"python -m tests.simulation --seed {seed} --trace" in text
    assert findings[0] in text
    assert run(seed, mutant=mutant).findings == run(seed, mutant=mutant).findings
    assert not run(seed).findings
    faults = shrink(seed, mutant=mutant)
    assert run(seed, faults=faults, mutant=mutant).findings
    assert not any(run(seed, faults=faults.without(kind), mutant=mutant).findings for kind in faults.kinds)


def test_a_run_can_be_written_and_checked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--trace", "--out", str(tmp_path)]) == 0

    printed = capsys.readouterr().out
    assert "SessionOpened" in printed
    assert "0 lost, 0 with two outcomes" in printed
    report = check(Recording.read([tmp_path / "seed-3.jsonl"]))
    assert report == run(3).report
