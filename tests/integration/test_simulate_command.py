"""`windlass pool simulate`: its table, its JSON, its charts and what it refuses; and a store's history as a load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tests.support.builders import (
    GAVE_UP,
    RAISED,
    SECOND,
    a_session,
    a_task,
    claim_all,
    claim_one,
    complete,
    report,
    submit,
)
from windlass.cli.simulate import simulate
from windlass.clock import ManualClock, SystemClock
from windlass.errors import WindlassError
from windlass.simulation.load import InvalidLoad
from windlass.simulation.load_sources import read_history
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

TABLE = """\
step: 5,115 tasks in 300 s, wait goal 10 s, 1 to 200 workers that start in 10 s
Late: share of tasks above the wait goal. Cost: relative to a policy that knows all tasks in advance.

policy        late   p99 wait  cost  resizes/h  recovery  score
hindsight 40  0.00%  2.1 s     2.19  0.0        0 s       2.19
clairvoyant   0.00%  5.8 s     1.54  72.0       0 s       3.70
"""
"""Results of policies that do not depend on the controller."""


def ask(*words: str, env: dict[str, str] | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(simulate, words, env={"WINDLASS_URL": "", **(env or {})})


def test_the_table_has_a_line_for_each_policy_the_best_first() -> None:
    result = ask("step", "--seconds", "300", "--policy", "hindsight", "--policy", "clairvoyant")

    assert (result.stdout, result.stderr, result.exit_code) == (TABLE, "", 0)


def test_the_same_command_prints_the_same_twice() -> None:
    words = ["bursts", "--seconds", "200", "--rate", "5", "--policy", "slo", "--policy", "threshold", "--seed", "3"]

    assert ask(*words).stdout == ask(*words).stdout


def test_json_has_the_numbers_and_the_decisions() -> None:
    document = json.loads(ask("step", "--seconds", "300", "--wait-goal", "2s", "--min", "2", "--json").stdout)
    [result] = document["results"]

    assert (result["policy"], result["goal"]) == ("slo", 2.0)
    assert {"late", "wait_p99", "worker_seconds", "cost", "resizes_per_hour", "recovery", "score"} <= result.keys()
    assert result["ledger"][0]["before"] == 2
    assert "→" in result["ledger"][0]["why"]


def test_charts_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    picture, page = tmp_path / "out.svg", tmp_path / "out.html"
    words = ["step", "--seconds", "200", "--policy", "slo", "--policy", "threshold"]

    assert ask(*words, "--chart", str(picture)).exit_code == 0
    assert ask(*words, "--chart", str(page)).exit_code == 0

    assert "step · slo" in " ".join(ElementTree.parse(picture).getroot().itertext())
    assert page.read_text().count("<figure>") == 2


def test_a_file_of_tasks_is_played(tmp_path: Path) -> None:
    trace = tmp_path / "monday.csv"
    trace.write_text("second,run\n" + "".join(f"{n / 2},0.5\n" for n in range(200)))

    result = ask(str(trace), "--wait-goal", "1s", "--start-delay", "100ms", "--max", "4")

    assert result.stdout.startswith("monday: 200 tasks in 129 s, wait goal 1 s, 1 to 4 workers that start in 0.1 s")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "has no rows"),
        ("a,b\n1,2\n", "has the columns a, b"),
        ("second,run\n1,x\n", "row 1: run='x'"),
        ("second,run\n1,-3\n", "row 1: run='-3'"),
        ("second,run\n1,1\n2\n", "row 2: run=None"),
        ("second,run\n1,1\n99999999999,1\n", "lasts"),
        ("timestamp,value\nx,0\n", "has no arrivals"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "TIMESTAMP='yesterday'"),
    ],
)
def test_a_file_that_cannot_be_played_is_refused_by_the_row(tmp_path: Path, text: str, named: str) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text(text)

    assert named in refusal(str(trace))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nothing"], "load='nothing'"),
        (["no.csv"], "Cannot read no.csv"),
        (["step", "--policy", "magic"], "policy='magic'"),
        (["step", "--min", "9", "--max", "3"], "min=9, max=3"),
        (["step", "--wait-goal", "soon"], "wait='soon'"),
        (["step", "--rate", "-1"], "rate=-1"),
        (["step", "--seconds", "60", "--chart", "out.png"], "out.png"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(words: Sequence[str], named: str) -> None:
    assert named in refusal(*words)


def test_two_loads_at_once_are_refused(tmp_path: Path) -> None:
    result = ask("step", "--store", f"sqlite:///{tmp_path / 'tasks.db'}")

    assert result.exit_code == 2
    assert "Use either LOAD=step or --store" in result.stderr
    assert not (tmp_path / "tasks.db").exists()


def test_a_store_in_the_environment_does_not_stand_in_the_way_of_a_load(tmp_path: Path) -> None:
    env = {"WINDLASS_URL": f"sqlite:///{tmp_path / 'tasks.db'}"}

    assert ask("step", "--seconds", "60", env=env).exit_code == 0


def test_options_cannot_change_a_recorded_load(tmp_path: Path) -> None:
    trace = tmp_path / "monday.csv"
    trace.write_text("second,run\n1,1\n")

    assert "rate=5.0 cannot change monday.csv" in refusal(str(trace), "--rate", "5")
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    assert "seconds=5 cannot change a store's history" in refusal("--store", store, "--seconds", "5")


def test_without_a_load_and_without_a_store_it_says_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = ask()

    assert result.exit_code == 2
    assert "step" in result.stderr
    assert "--store" in result.stderr


def refusal(*words: str) -> str:
    """What the command says when it refuses; `windlass` itself prints it."""
    result = ask(*words)
    assert isinstance(result.exception, WindlassError), result.output
    return str(result.exception)


# The history of a store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = SQLiteStore(tmp_path / "history.db", clock=clock)
    yield store
    store.close()


def work(store: Store, clock: ManualClock, number: int, *, handler: str = "work", queue: str = "default") -> None:
    """Tasks that arrive one by one, each claimed a second after and done in two."""
    session = a_session(store)
    for _ in range(number):
        submit(store, a_task(handler=handler, queue=queue))
        clock.advance(SECOND)
        claim = claim_one(store, session, queue)
        clock.advance(2 * SECOND)
        complete(store, claim)


def test_a_history_is_played_as_it_was(store: Store, clock: ManualClock) -> None:
    work(store, clock, 30)

    load = read_history(store, now=clock.now(), since=timedelta(seconds=90))

    assert [at for at, _ in load.arrivals] == pytest.approx([3.0 * n for n in range(30)])
    assert {run for _, run in load.arrivals} == {2.0}


def test_a_history_reaches_as_far_back_as_is_asked_and_no_further(store: Store, clock: ManualClock) -> None:
    submit(store, *(a_task() for _ in range(1200)))
    complete(store, *claim_all(store))
    clock.advance(timedelta(minutes=10))
    work(store, clock, 30)

    assert len(read_history(store, now=clock.now(), since=timedelta(minutes=5)).arrivals) == 30
    assert len(read_history(store, now=clock.now(), since=timedelta(minutes=20)).arrivals) == 1230


def test_one_queue_is_played_without_the_others(store: Store, clock: ManualClock) -> None:
    work(store, clock, 25, queue="mail")
    work(store, clock, 30, queue="bulk")

    assert len(read_history(store, now=clock.now(), queue="mail").arrivals) == 25
    assert len(read_history(store, now=clock.now()).arrivals) == 55


def test_a_task_arrives_when_it_is_due(store: Store, clock: ManualClock) -> None:
    begin = clock.now()
    submit(store, a_task(delay=timedelta(seconds=100)))
    work(store, clock, 30)
    clock.advance(timedelta(seconds=20))
    store.sweep()
    complete(store, claim_one(store))

    load = read_history(store, now=clock.now())

    at = [at - load.arrivals[0][0] for at, _ in load.arrivals]
    assert clock.now() - begin == 110_000_000
    assert at[-1] == pytest.approx(100.0)


def test_what_did_not_complete_gets_the_mean_of_its_handler(store: Store, clock: ManualClock) -> None:
    work(store, clock, 30)
    submit(store, a_task())
    report(store, claim_one(store), GAVE_UP)
    submit(store, a_task(handler="never.seen"))

    runs = [run for _, run in read_history(store, now=clock.now()).arrivals]

    assert runs == [2.0] * 32


def test_a_retried_task_counts_once_and_from_its_submit(store: Store, clock: ManualClock) -> None:
    work(store, clock, 30)
    begin = clock.now()
    submit(store, a_task())
    report(store, claim_one(store), RAISED)
    clock.advance(timedelta(minutes=1))
    store.sweep()
    complete(store, claim_one(store))

    load = read_history(store, now=clock.now(), since=timedelta(seconds=150))

    assert len(load.arrivals) == 31
    assert load.arrivals[-1][0] == pytest.approx((begin - clock.now()) / 1e6 + 150)


def test_what_cannot_run_yet_is_no_arrival(store: Store, clock: ManualClock) -> None:
    work(store, clock, 30)
    submit(store, a_task(delay=timedelta(hours=1)))
    submit(store, a_task(key="a", delay=timedelta(hours=1)), a_task(prerequisites=["a"]))

    assert len(read_history(store, now=clock.now()).arrivals) == 30


def test_too_little_history_is_refused_with_what_there_is(store: Store, clock: ManualClock) -> None:
    work(store, clock, 5, queue="mail")

    with pytest.raises(
        InvalidLoad, match=r"Queue 'mail' completed 5 tasks within since=1:00:00, but a simulation needs 20"
    ):
        read_history(store, now=clock.now(), queue="mail")


def test_the_command_plays_the_history_of_a_store(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now() - 200_000_000)
    store = SQLiteStore(tmp_path / "tasks.db", clock=clock)
    work(store, clock, 40, queue="mail")
    store.close()

    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    result = ask("--store", url, "--since", "10m", "--queue", "mail")
    by_environment = ask("--since", "10m", "--queue", "mail", env={"WINDLASS_URL": url})

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("recorded mail: 40 tasks")
    assert by_environment.stdout.startswith("recorded mail: 40 tasks")


def test_a_decider_of_an_app_is_played_beside_others(tmp_path: Path) -> None:
    (tmp_path / "deciding.py").write_text(
        "import windlass\napp = windlass.App()\n"
        "@app.decider\ndef by_queue(situation):\n    return situation.running + situation.queued / 5\n"
        "app.run_worker()\n"
    )
    words = ["pool", "simulate", "step", "--seconds", "120", "--policy", "app:by_queue", "--app", "deciding"]

    run = subprocess.run(
        [sys.executable, "-m", "windlass", *words], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert run.stdout.splitlines()[-1].startswith("app:by_queue ")
    assert not (tmp_path / "windlass.db").exists()


def test_a_decider_without_its_app_is_refused() -> None:
    result = ask("step", "--policy", "app:by_queue")

    assert result.exit_code == 2
    assert "--app shop:app" in result.stderr
