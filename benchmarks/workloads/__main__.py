"""`make compare`: run the workloads W1 to W6 with Windlass and its peers, and print one table.

Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.peers import PEERS, list_versions
from benchmarks.progress import log_progress
from benchmarks.workloads.adapter import System
from benchmarks.workloads.measure import Runs
from benchmarks.workloads.plan import DEFAULT, QUICK, WORKLOADS, Plan
from benchmarks.workloads.report import Results, format_configurations
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.systems import make_windlass
from benchmarks.workloads.windlass_runs import WindlassRuns, measure_bare_statements
from tests.support.servers import ServerMissing

NOTES = """\
W1: single enqueue calls per second of one client, 16 threads and 16 asyncio tasks. W1b: bulk enqueue, 1,000 at a time.
W2: no-ops per second that workers take from a full store, after the first tenth. W3: from the enqueue call to the start
of the handler, on an idle system. W4: tasks per second while one producer enqueues and the workers run. W5: one task,
then many, then one; and a chain. W6: time until a task runs again after its worker (or node) was killed. Numbers are
medians with the lowest and highest round. Every count was checked in the system's own store and in the handlers' file.
`–`: not supported, or not measured. Compare only numbers of the same run."""
INSTALL = "pip install -r requirements/peers.txt"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the workloads that the command line asks for."""
    asked = _parse_arguments(arguments)
    plan = _make_plan(asked)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every server and worker stops
    systems = [*_choose_windlass(asked.store), *_choose_peers(asked.peers)]
    facts = [*describe_machine(), *list_versions(systems)]
    print("\n".join(facts), NOTES, sep="\n\n", flush=True)
    other_load = OtherLoad()
    results = Results()
    with Servers() as servers:
        for number in range(plan.rounds):
            log_progress(f"round {number + 1} of {plan.rounds}")
            for system in systems:
                _measure_system(system, servers, plan, asked.only, results, first=number == 0)
    print(f"\n{results.format()}\n\n{format_configurations([(one.title, one.configuration) for one in systems])}\n")
    print(other_load, flush=True)
    if asked.json:
        report = {"machine": facts, "other_load": str(other_load), "plan": plan, "results": results.found}
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workloads", description="Compare Windlass with its peers."
    )
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both", help="where Windlass runs")
    parser.add_argument("--peers", default="all", metavar="all|none|A,B", help=f"some of {', '.join(_list_peers())}")
    parser.add_argument(
        "--only", type=_parse_workloads, default=WORKLOADS, metavar="W1,W2", help=f"some of {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, to check that everything works")
    parser.add_argument("--rounds", type=int, metavar="N", help="number of rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    return parser.parse_args(arguments)


def _parse_workloads(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if unknown := set(found) - set(WORKLOADS):
        raise argparse.ArgumentTypeError(f"Unknown workload: {', '.join(unknown)}. Use some of {', '.join(WORKLOADS)}.")
    return found


def _make_plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else DEFAULT
    return replace(plan, rounds=asked.rounds) if asked.rounds else plan


def _choose_windlass(stores: str) -> list[System]:
    return [make_windlass(store) for store in ("postgres", "sqlite") if stores in (store, "both")]


def _list_peers() -> list[str]:
    return list(dict.fromkeys(peer.name for peer in PEERS))


def _choose_peers(text: str) -> list[System]:
    if text == "none":
        return []
    wanted = _list_peers() if text == "all" else text.split(",")
    if unknown := set(wanted) - set(_list_peers()):
        raise SystemExit(f"Unknown peer: {', '.join(unknown)}. Use some of {', '.join(_list_peers())}.")
    chosen = [peer for peer in PEERS if peer.name in wanted]
    for peer in chosen:
        if peer.missing:
            log_progress(f"{peer.title} is skipped: {', '.join(peer.missing)} is not installed. Run {INSTALL}.")
    return [peer for peer in chosen if not peer.missing]


def _measure_system(system: System, servers: Servers, plan: Plan, only: Any, results: Results, *, first: bool) -> None:
    ours = system.name == "windlass"
    try:
        if ours:
            for found in measure_bare_statements(system.store, servers, plan, only):
                results.add(f"bare statements ({system.store})", found)
        for found in (WindlassRuns if ours else Runs)(system, servers, plan).all(only, first=first):
            results.add(system.title, found)
    except ServerMissing as error:
        log_progress(f"{system.title} is skipped: {error}")


if __name__ == "__main__":
    main()
