"""CPU time is counted by role, and not lost when a process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from benchmarks import usage
from benchmarks.cost import Cost
from benchmarks.usage import Roles, Usage, read_usage
from benchmarks.workloads.report import choose_median, format_costs

BURNED = 0.1
BURN = f"""
import time
while time.process_time() < {BURNED}: pass
"""
PARENT = f"""
import os, subprocess, sys
for line in sys.stdin:
    child = subprocess.Popen([sys.executable, "-c", {BURN!r} + "print(flush=True); import sys; sys.stdin.read()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    print("burned", flush=True)
    sys.stdin.readline()
    child.communicate(b"end")
    print("ended", flush=True)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process
        process.kill()


def send(process: subprocess.Popen[str], expected: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("next\n")
    assert process.stdout.readline().strip() == expected


def test_the_children_of_a_node_are_its_workers(parent: subprocess.Popen[str]) -> None:
    roles = Roles(nodes=[parent.pid], split=True)
    before = read_usage(roles)

    send(parent, "burned")

    used = read_usage(roles) - before
    assert used.workers is not None
    assert used.workers >= BURNED
    assert used.node is not None
    assert used.node < used.workers
    assert used.server is None
    assert used.total == used.node + used.workers


def test_the_time_of_a_process_that_ended_moves_to_its_parent(parent: subprocess.Popen[str]) -> None:
    roles = Roles(nodes=[parent.pid])
    before = read_usage(roles)

    send(parent, "burned")
    send(parent, "ended")

    used = read_usage(roles) - before
    assert used.node is None
    assert used.workers is not None
    assert used.workers >= BURNED - 0.02, "the times of ended children are rounded down to hundredths of a second"


def test_an_observer_is_not_part_of_the_server(parent: subprocess.Popen[str]) -> None:
    send(parent, "burned")
    everything = read_usage(Roles(server=parent.pid))

    [child] = psutil.Process(parent.pid).children()
    observed = read_usage(Roles(server=parent.pid, ignored=[child.pid]))

    assert everything.server is not None
    assert observed.server is not None
    assert everything.server - observed.server >= BURNED


def make_cost(seconds: float) -> Cost:
    return Cost(tasks=1_000, seconds=1.0, used=Usage(server=seconds, node=seconds))


def test_a_line_shows_the_round_with_the_median_sum() -> None:
    rounds = [make_cost(0.03), make_cost(0.01), make_cost(0.02)]

    assert choose_median(rounds) == rounds[2]
    assert "40.0 (20.0–60.0)" in format_costs("drain", [("windlass", rounds)], markdown=True)


def test_failed_rounds_are_shown() -> None:
    table = format_costs(
        "drain", [("windlass", [make_cost(0.01), "lost a task"]), ("other", ["lost all"])], markdown=True
    )

    assert "| windlass, 1 failed | 10.0 |" in table
    assert "| other | failed |" in table


def test_systems_without_a_workload_are_listed_below_its_table() -> None:
    table = format_costs("chain", [("windlass", [make_cost(0.01)]), ("other", [None, None])], markdown=True)

    assert "| other |" not in table
    assert table.endswith("Not supported: other.")


def test_a_server_process_that_has_just_ended_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the list of processes and the look at their titles, one may end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = list(usage._list_processes())
        child.communicate(b"\n")

    monkeypatch.setattr(usage, "_list_processes", lambda: iter(known))

    assert usage.read_usage(usage.Roles(server=os.getpid())).server is not None
