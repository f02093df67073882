"""`make compare`: print the CPU time per task, rates and times of Windlass and its peers.

Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from benchmarks.cost import Cost
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.peers import choose_peers, list_versions
from benchmarks.progress import log_progress
from benchmarks.workloads.effects import WrongResult
from benchmarks.workloads.measure import WORKLOADS, Line, measure
from benchmarks.workloads.once import ONCE, Found, measure_once
from benchmarks.workloads.plan import DEFAULT, QUICK, Plan
from benchmarks.workloads.report import (
    describe_cost,
    format_configurations,
    format_costs,
    format_facts,
    format_waits,
    format_windows,
)
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.systems import make_windlass
from tests.support.servers import ServerMissing

COMPARED = "pgqueuer,procrastinate,huey,dramatiq"
BY_DEFAULT = ("drain", "bulk", "single", "chain", "fan", "latency")
T = TypeVar("T")
NOTES = """\
Microseconds of CPU time per task: user + system of all processes, from the start of the measured phase until the last
task is settled in the store. server: all processes of PostgreSQL or Redis. background: the part of it for WAL writer,
checkpointer, autovacuum and server processes that ended. client: the process that enqueues, while it does. node: the
node of Windlass. workers: its workers and their parent, or all processes of a peer. Each line is the round with the
median sum. Every count was checked in the system's own store and in the handlers' file. `–`: no such process."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the measurements that the command line asks for."""
    asked = _parse_arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every server and worker stops
    plan, lines = _make_plan(asked), _list_lines(asked)
    systems = list({line.system.title: line.system for line in lines}.values())
    machine = [*describe_machine(), *list_versions(systems)]
    print("\n".join(machine), NOTES, sep="\n\n", flush=True)
    other_load = OtherLoad()
    with Servers() as servers:
        costs = _measure_costs(lines, servers, plan, [one for one in asked.only if one in WORKLOADS])
        facts = _measure_facts(lines, servers, plan, [one for one in asked.only if one in ONCE])
    for workload, found in costs.items():
        print(f"\n{format_costs(workload, found.items(), markdown=asked.markdown)}")
    for wanted, form in ((asked.pin, format_windows), (asked.nodes, format_waits)):
        if wanted and "drain" in costs:
            print(f"\n{form(costs['drain'].items(), markdown=asked.markdown)}")
    for what, known in facts.items():
        print(f"\n{format_facts(what, known, markdown=asked.markdown)}")
    print(f"\n{format_configurations([(one.title, one.configuration) for one in systems])}\n\n{other_load}")
    if asked.json:
        report = {"machine": machine, "other_load": str(other_load), "plan": plan, "results": costs, "once": facts}
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description="Measure CPU time per task.")
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both", help="where Windlass runs")
    parser.add_argument("--peers", default=COMPARED, metavar="all|none|A,B", help=f"[default: {COMPARED}]")
    parser.add_argument(
        "--only",
        type=_parse_workloads,
        default=BY_DEFAULT,
        metavar="all|A,B",
        help=f"some of {', '.join((*WORKLOADS, *ONCE))}  [default: {','.join(BY_DEFAULT)}]",
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, to check that everything works")
    parser.add_argument("--tasks", type=_parse_number, metavar="N", help="tasks to drain and to enqueue in bulk")
    parser.add_argument("--singles", type=_parse_number, metavar="N", help="single enqueue calls")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, in which all systems take turns")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers of a node of Windlass")
    parser.add_argument(
        "--nodes",
        type=_parse_numbers,
        default=(),
        metavar="1,2,4",
        help="measure Windlass with each number of nodes, and sample the waits of the PostgreSQL server",
    )
    parser.add_argument(
        "--pin", action="store_true", help="also drain while an idle reader holds a snapshot (PostgreSQL)"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--json", metavar="FILE", help="also write every round to this file")
    return parser.parse_args(arguments)


def _parse_workloads(text: str) -> tuple[str, ...]:
    known = (*WORKLOADS, *ONCE)
    found = known if text == "all" else tuple(text.split(","))
    if unknown := set(found) - set(known):
        raise argparse.ArgumentTypeError(f"Unknown workload: {', '.join(unknown)}. Use some of {', '.join(known)}.")
    return found


def _parse_number(text: str) -> int:
    return int(float(text))


def _parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _make_plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else DEFAULT
    tasks = asked.tasks or plan.tasks
    return replace(
        plan,
        rounds=asked.rounds or plan.rounds,
        tasks=tasks,
        singles=asked.singles or plan.singles,
        patience=max(plan.patience, tasks / 100),
    )


def _list_lines(asked: argparse.Namespace) -> list[Line]:
    lines: list[Line] = []
    for store in ("postgres", "sqlite"):
        for nodes in (asked.nodes or (1,)) if asked.store in (store, "both") else ():
            system = make_windlass(store, nodes=nodes, workers=asked.workers)
            lines.append(Line(system=system, sample=bool(asked.nodes) and store == "postgres"))
    lines += [Line(system=peer) for peer in choose_peers(asked.peers)]
    pinned = [
        replace(line, pin=True, system=replace(line.system, variant=f"{line.system.variant} pinned".strip()))
        for line in lines
        if asked.pin and line.system.store == "postgres"
    ]
    return lines + pinned


def _measure_costs(
    lines: Sequence[Line], servers: Servers, plan: Plan, workloads: Sequence[str]
) -> dict[str, dict[str, list[Cost | str | None]]]:
    """Return the results of all rounds, by workload and system."""
    results: dict[str, dict[str, list[Cost | str | None]]] = {
        workload: {line.system.title: [] for line in lines if workload == "drain" or not line.pin}
        for workload in workloads
    }
    for number in range(plan.rounds if workloads else 0):
        log_progress(f"round {number + 1} of {plan.rounds}")
        for workload, found in results.items():
            for line in lines:
                title = line.system.title
                if title in found:
                    cost = _try(title, workload, lambda line=line, kind=workload: measure(line, kind, servers, plan))
                    found[title].append(cost)
                    if isinstance(cost, Cost):
                        log_progress(f"{title}: {workload}: {describe_cost(cost)}")
    return results


def _measure_facts(
    lines: Sequence[Line], servers: Servers, plan: Plan, wanted: Sequence[str]
) -> dict[str, dict[str, Found]]:
    """Return what is measured once, by kind and system."""
    results: dict[str, dict[str, Found]] = {what: {} for what in wanted}
    for what, found in results.items():
        for system in [line.system for line in lines if not line.pin]:
            log_progress(f"{system.title}: {what}")
            known = _try(system.title, what, lambda system=system, what=what: measure_once(system, what, servers, plan))
            found[system.title] = {what: "failed"} if isinstance(known, str) else known
    return results


def _try(title: str, what: str, work: Callable[[], T]) -> T | str:
    """Measure. If it fails, report the failure, return it, and continue with the other measurements."""
    try:
        return work()
    except (RuntimeError, WrongResult, ServerMissing) as error:
        log_progress(f"{title}: {what} FAILED: {error}")
        return str(error)


if __name__ == "__main__":
    main()
