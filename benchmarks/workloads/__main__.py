"""What `make compare` runs: Windlass and its peers through W1 to W6, one after the other, in one table.

Results go to stdout, what is being measured to stderr.
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

from benchmarks.machine import Neighbours, described
from benchmarks.peers import PEERS, versions
from benchmarks.progress import say
from benchmarks.workloads.adapter import System
from benchmarks.workloads.measure import Runs
from benchmarks.workloads.own import OwnRuns, bare_statements
from benchmarks.workloads.places import Places
from benchmarks.workloads.plan import DEFAULT, QUICK, WORKLOADS, Plan
from benchmarks.workloads.report import Results, sentences
from benchmarks.workloads.systems import windlass_on
from tests.support.servers import ServerMissing

NOTES = """\
W1 single enqueue calls a second of one client, of 16 threads, of 16 asyncio tasks; W1b bulk in 1,000s; W2 no-ops a
second that workers take from a full store, after the first tenth; W3 from the call of enqueue to the start of the
handler while nothing else happens; W4 tasks a second while one producer calls enqueue and the workers run; W5 one
task, then many, then one, and a chain; W6 until a task runs again whose worker (or node) was killed. Medians, with the
lowest and the highest round. Every count was checked in the system's own store and by what the handlers left.
`–`: the system has no such thing, or it was not asked. Only numbers of one run can be compared."""
INSTALL = "pip install -r requirements/peers.txt"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    asked = _arguments(arguments)
    plan = _plan(asked)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every server and worker is ended
    systems = [*_ours(asked.store), *_peers(asked.peers)]
    facts = [*described(), *versions(systems)]
    print("\n".join(facts), NOTES, sep="\n\n", flush=True)
    neighbours = Neighbours()
    results = Results()
    with Places() as places:
        for number in range(plan.rounds):
            say(f"round {number + 1} of {plan.rounds}")
            for system in systems:
                _measure(system, places, plan, asked.only, results, first=number == 0)
    print(f"\n{results.as_text()}\n\n{sentences([(one.title, one.configuration) for one in systems])}\n")
    print(neighbours, flush=True)
    if asked.json:
        said = {"machine": facts, "neighbours": str(neighbours), "plan": plan, "results": results.found}
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(said)))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workloads", description="Windlass beside its peers")
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both", help="where Windlass runs")
    parser.add_argument("--peers", default="all", metavar="all|none|A,B", help=f"of {', '.join(_names())}")
    parser.add_argument("--only", type=_workloads, default=WORKLOADS, metavar="W1,W2", help=f"of {WORKLOADS}")
    parser.add_argument("--quick", action="store_true", help="small numbers, for a look whether all of it works")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often everything is measured")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    return parser.parse_args(arguments)


def _workloads(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if unknown := set(found) - set(WORKLOADS):
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return found


def _plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else DEFAULT
    return replace(plan, rounds=asked.rounds) if asked.rounds else plan


def _ours(stores: str) -> list[System]:
    return [windlass_on(store) for store in ("postgres", "sqlite") if stores in (store, "both")]


def _names() -> list[str]:
    return list(dict.fromkeys(peer.name for peer in PEERS))


def _peers(text: str) -> list[System]:
    if text == "none":
        return []
    wanted = _names() if text == "all" else text.split(",")
    if unknown := set(wanted) - set(_names()):
        raise SystemExit(f"no such peer: {', '.join(unknown)}; there are {', '.join(_names())}")
    chosen = [peer for peer in PEERS if peer.name in wanted]
    for peer in chosen:
        if peer.missing:
            say(f"{peer.title} is left out: {', '.join(peer.missing)} is not installed; {INSTALL}")
    return [peer for peer in chosen if not peer.missing]


def _measure(system: System, places: Places, plan: Plan, only: Any, results: Results, *, first: bool) -> None:
    ours = system.name == "windlass"
    try:
        if ours:
            for found in bare_statements(system.store, places, plan, only):
                results.add(f"bare statements ({system.store})", found)
        for found in (OwnRuns if ours else Runs)(system, places, plan).all(only, first=first):
            results.add(system.title, found)
    except ServerMissing as error:
        say(f"{system.title} is left out: {error}")


if __name__ == "__main__":
    main()
