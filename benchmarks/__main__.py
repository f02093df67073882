"""`make bench`: measure every store, and compare it with its bare statements.

Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks import pinned, table
from benchmarks.databases import DATABASES, Database
from benchmarks.drains import measure_drains
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.plan import DEFAULT, FULL, QUICK, Plan
from benchmarks.submits import measure_submits

NOTES = """\
Rates are tasks per second; the rates of several processes are added. `bare` runs the same statements in the same
transactions through the same driver, without the store. Bulk submits do not include the time to build the NewTasks,
except in the rows that say so."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one store."""

    store: str
    results: list[table.Result]
    declines: list[pinned.Decline]


def main() -> None:
    """Run the benchmarks that the command line asks for."""
    asked = _parse_arguments()
    plan = _make_plan(asked)
    print("\n".join(describe_machine()), NOTES, sep="\n\n")
    reports = [_measure_store(name, plan) for name in dict.fromkeys(asked.store or DATABASES)]
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
        help="also measure with N finished rows, such as 10^7",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    return parser.parse_args()


def _make_plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else FULL if asked.full else DEFAULT
    return replace(plan, finished=(*plan.finished, *asked.rows))


def _parse_number(text: str) -> int:
    """Parse a large number such as 10^7, 1e7 or 10_000_000."""
    base, power, exponent = text.partition("^")
    return int(base) ** int(exponent) if power else int(float(text))


def _measure_store(name: str, plan: Plan) -> Report:
    other_load = OtherLoad()
    make: Any = DATABASES[name]
    database: Database = make()
    try:
        results = [*measure_submits(database, plan), *measure_drains(database, plan)]
        declines = list(pinned.measure_declines(database, plan)) if database.shared else []
    finally:
        database.close()
    results += pinned.summarize(declines)
    print(f"\n{name}\n{table.format_table(table.compare_with_empty(results))}", flush=True)
    if declines:
        print(f"\n{name}, while an idle reader holds its snapshot\n{pinned.format_declines(declines)}", flush=True)
    print(other_load, flush=True)
    return Report(store=name, results=results, declines=declines)


if __name__ == "__main__":
    main()
