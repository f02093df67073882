"""`make bench`: measure what every store costs: submits, and claim + settle, without nodes and workers.

Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.databases import DATABASES, Database
from benchmarks.drains import measure_drains
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.pinned import Decline, format_declines, measure_declines
from benchmarks.plan import DEFAULT, FULL, QUICK, Plan
from benchmarks.submits import measure_submits
from benchmarks.table import Result, format_table
from benchmarks.tenants import measure_tenants

NOTES = """\
Microseconds of CPU time per task: `server` of all processes of the PostgreSQL server, `Python` of the calling
processes. `of the first` compares the sum with that of the same work in the first condition. Rates are tasks per second
of all processes together."""
PARTS = ("submits", "drains", "pinned", "tenants")
DEFAULT_PARTS = ("submits", "drains", "pinned")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one store."""

    store: str
    results: list[Result]
    declines: list[Decline]


def main() -> None:
    """Run the benchmarks that the command line asks for."""
    asked = _parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every database is removed
    plan = _make_plan(asked)
    print("\n".join(describe_machine()), NOTES, sep="\n\n")
    stores = dict.fromkeys(asked.store or DATABASES)
    reports = [_measure_store(name, plan, asked.only or DEFAULT_PARTS, markdown=asked.markdown) for name in stores]
    if asked.json:
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(reports)))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the stores.")
    parser.add_argument("--store", choices=DATABASES, action="append", help="measure only this store; may be repeated")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="under a minute, to check that everything works")
    size.add_argument("--full", action="store_true", help="every cell in every condition: about half an hour")
    parser.add_argument(
        "--rows",
        type=_parse_number,
        action="append",
        default=[],
        metavar="N",
        help="also measure among N finished tasks, such as 10^7",
    )
    parser.add_argument(
        "--waiting",
        type=_parse_number,
        default=None,
        metavar="N",
        help="also measure among N waiting tasks, at the end",
    )
    parser.add_argument("--batch", type=int, action="append", metavar="N", help="only this batch size; may be repeated")
    parser.add_argument("--processes", type=int, action="append", metavar="N", help="only this number of processes")
    parser.add_argument(
        "--only",
        choices=PARTS,
        action="append",
        help="only this part; may be repeated. `tenants` is measured only on request.",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    return parser.parse_args()


def _make_plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else FULL if asked.full else DEFAULT
    return replace(
        plan,
        finished=tuple(asked.rows or plan.finished),
        waiting=plan.waiting if asked.waiting is None else asked.waiting,
        batches=tuple(asked.batch or plan.batches),
        processes=tuple(asked.processes or plan.processes),
    )


def _parse_number(text: str) -> int:
    """Parse a large number such as 10^7, 1e7 or 10_000_000."""
    base, power, exponent = text.partition("^")
    return int(base) ** int(exponent) if power else int(float(text))


def _measure_store(name: str, plan: Plan, parts: Collection[str], *, markdown: bool) -> Report:
    other_load = OtherLoad()
    make: Any = DATABASES[name]
    database: Database = make()
    try:
        results = [
            *(measure_submits(database, plan) if "submits" in parts else ()),
            *(measure_drains(database, plan) if "drains" in parts else ()),
            *(measure_tenants(database, plan) if "tenants" in parts else ()),
        ]
        declines = list(measure_declines(database, plan)) if "pinned" in parts and database.shared else []
    finally:
        database.close()
    if results:
        print(f"\n{name}\n\n{format_table(results, markdown=markdown)}", flush=True)
    if declines:
        table = format_declines(declines, markdown=markdown)
        print(f"\n{name}, while an idle reader holds its snapshot\n\n{table}", flush=True)
    print(f"\n{other_load}", flush=True)
    return Report(store=name, results=results, declines=declines)


if __name__ == "__main__":
    main()
