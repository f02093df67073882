"""The benchmarks run and return numbers. Their speed is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.fill import fill_postgres, fill_sqlite, make_template
from benchmarks.shapes import SHAPES
from tests.support.builders import a_session
from windlass import open_store
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Filter, Settled

ROOT = Path(__file__).parents[2]
ROLES = {"drain": frozenset({"node", "workers"})}
ROLES |= dict.fromkeys(("bulk", "single", "threads", "coroutines"), frozenset({"client"}))
ROLES |= dict.fromkeys(("chain", "fan", "latency", "both"), frozenset({"client", "node", "workers"}))


def run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, check=False, capture_output=True, text=True, timeout=120
    )


def test_the_workloads_return_costs_of_all_roles(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    only = ",".join((*ROLES, "memory"))

    done = run_benchmark(
        "benchmarks.cpu", "--quick", "--peers", "none", "--store", "sqlite", "--only", only, "--json", str(found)
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(found.read_text())
    assert report["results"].keys() == ROLES.keys()
    for workload, systems in report["results"].items():
        [[cost]] = systems.values()
        assert not isinstance(cost, str), cost
        used = {role: seconds for role, seconds in cost["used"].items() if seconds is not None}
        assert used.keys() == ROLES[workload]
        assert sum(used.values()) > 0  # One role alone may use less than the clock of a process shows.
    [[drain]] = report["results"]["drain"].values()
    assert drain["tasks"] == sum(window["tasks"] for window in drain["windows"])
    assert report["once"]["memory"]["windlass (sqlite)"]["node USS MB"] > 0
    assert "sum µs (lowest–highest)" in done.stdout


def test_an_unknown_peer_is_refused() -> None:
    done = run_benchmark("benchmarks.cpu", "--peers", "nobody")

    assert done.returncode == 1
    assert "Unknown peer: nobody" in done.stderr


def test_the_graphs_run_on_sqlite() -> None:
    done = run_benchmark("benchmarks.graphs", "--store", "sqlite", "--tasks", "30")

    assert done.returncode == 0, done.stderr
    assert "retry from the root (30)" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--tasks", "300"], ["--node", "--shape", "layers", "--tasks", "1500"], ["--only", "cascades", "--tasks", "300"]],
)
def test_large_graphs_are_measured_on_sqlite(arguments: list[str], tmp_path: Path) -> None:
    found = tmp_path / "found.json"

    done = run_benchmark("benchmarks.scale", "--store", "sqlite", *arguments, "--json", str(found))

    assert done.returncode == 0, done.stderr
    results = json.loads(found.read_text())
    assert len({(one["shape"], one["by"]) for one in results}) == len(results) > 0
    assert all(one["run"]["tasks"] == one["tasks"] == int(arguments[-1]) for one in results)
    assert all(one["transactions"] is None or 0 < one["transactions"] <= 3 * one["tasks"] for one in results)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_graphs_to_measure_are_in_topological_order(shape: str) -> None:
    seen: set[int] = set()
    for number, above in SHAPES[shape](2_500):
        assert seen.issuperset(above)
        seen.add(number)
    assert seen == set(range(2_500))


def test_a_worker_runs_every_kind_of_handler() -> None:
    done = run_benchmark("benchmarks.worker", "300")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "handler",
        "def",
        "async",
        "arguments",
        "result",
        "output",
    ]


def test_the_stores_run_on_sqlite() -> None:
    done = run_benchmark("benchmarks", "--quick", "--store", "sqlite", "--waiting", "3000", "--batch", "100")

    assert done.returncode == 0, done.stderr
    assert "5,000 finished, 3,000 waiting" in done.stdout
    assert "while an idle reader holds its snapshot" in done.stdout


def test_tenants_and_limits_are_measured_on_sqlite() -> None:
    done = run_benchmark("benchmarks", "--quick", "--store", "sqlite", "--only", "tenants", "--batch", "500")

    assert done.returncode == 0, done.stderr
    assert "fair, 10,000 tenants, limit of the queue" in done.stdout


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_filled_in_tasks_can_be_claimed_and_settled(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = str(tmp_path / "tasks.db")
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with closing(open_store(url)) as store:
        for finished, many in ((True, 30), (False, 50)):
            template = make_template(store, finished=finished)
            if kind == "sqlite":
                fill_sqlite(path, template, many, finished=finished)
            else:
                fill_postgres(url, template, many, finished=finished)

        session = a_session(store)
        claims = store.claim(session, ["default"], 100)
        verdicts = store.settle([(claim.lease, COMPLETED) for claim in claims])

        assert len({claim.lease.task for claim in claims}) == 51
        assert {(claim.handler, claim.args) for claim in claims} == {("bench.noop", '{"n":1}')}
        assert {type(verdict) for verdict in verdicts} == {Settled}
        found = store.find(Filter(states=frozenset([State.COMPLETED])), limit=200).tasks
        assert len({task.id for task in found}) == 51 + 31
        assert {task.state for task in found} == {State.COMPLETED}
