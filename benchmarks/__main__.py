"""What `make bench` runs: every store's rates in one table each, beside the cost of its bare statements.

Results go to stdout, what is being measured to stderr.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks import pinned, table
from benchmarks.drains import drains
from benchmarks.homes import HOMES, Home
from benchmarks.machine import Neighbours, described
from benchmarks.plan import DEFAULT, FULL, QUICK, Plan
from benchmarks.submits import submits

NOTES = """\
Rates are tasks a second; several processes' rates are added up. `bare` is the same statements in the same transactions
through the same driver, without the store around them. Bulk submits leave the construction of the NewTasks out of the
measured time except where they say so."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one store."""

    store: str
    results: list[table.Result]
    declines: list[pinned.Decline]


def main() -> None:
    """Measure what the command line asks for."""
    asked = _arguments()
    plan = _plan(asked)
    print("\n".join(described()), NOTES, sep="\n\n")
    reports = [_measured(name, plan) for name in dict.fromkeys(asked.store or HOMES)]
    if asked.json:
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(reports)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast the stores are")
    parser.add_argument("--store", choices=HOMES, action="append", help="measure only this one; may be repeated")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="under a minute, for a look whether all of it works")
    size.add_argument("--full", action="store_true", help="every cell in every condition, longer: about half an hour")
    parser.add_argument(
        "--rows", type=_whole, action="append", default=[], metavar="N", help="also with N finished rows, as 10^7"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    return parser.parse_args()


def _plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else FULL if asked.full else DEFAULT
    return replace(plan, finished=(*plan.finished, *asked.rows))


def _whole(text: str) -> int:
    """A large number as people write it: 10^7, 1e7, 10_000_000."""
    base, power, exponent = text.partition("^")
    return int(base) ** int(exponent) if power else int(float(text))


def _measured(name: str, plan: Plan) -> Report:
    neighbours = Neighbours()
    make: Any = HOMES[name]
    home: Home = make()
    try:
        results = [*submits(home, plan), *drains(home, plan)]
        declines = list(pinned.declines(home, plan)) if home.shared else []
    finally:
        home.close()
    results += pinned.last_windows(declines)
    print(f"\n{name}\n{table.as_text(table.beside_empty(results))}", flush=True)
    if declines:
        print(f"\n{name}, while an idle reader holds its snapshot\n{pinned.as_text(declines)}", flush=True)
    print(neighbours, flush=True)
    return Report(store=name, results=results, declines=declines)


if __name__ == "__main__":
    main()
