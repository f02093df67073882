"""`python -m benchmarks.autoscale`: play every load with the chosen policies and print the scores."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from windlass.simulation.bound import bound
from windlass.simulation.load import Load
from windlass.simulation.ours import OURS
from windlass.simulation.report import chart, loads_table, losses, policies_table
from windlass.simulation.rivals import HINDSIGHT, RIVALS, Start, static
from windlass.simulation.scenarios import SCENARIOS
from windlass.simulation.score import Result, combined, run
from windlass.simulation.traces import read_trace, traces_at

FORKED = 0.05
"""The start delay of a forked worker: everything is repeated with it."""
Best = dict[str, tuple[str, Sequence[Result]]]
Bounded = Sequence[tuple[Load, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    options = parser().parse_args(arguments)
    loads = [(load, bound(load)) for load in chosen_loads(options)]
    best: Best = {}
    for name in options.deciders.split(","):
        best[name] = play(name, loads, options.chart)
        print(f"\n{name} {best[name][0]}".rstrip(), flush=True)
        print("\n".join(loads_table(best[name][1])), flush=True)
        for result in best[name][1] if options.chart else ():
            print(result.load, *chart(result), sep="\n")
    print("\n" + "\n".join(policies_table(best)))
    rivals = {name: what for name, what in best.items() if name not in {"slo", "hindsight"}}
    if "slo" in best and rivals:
        print("\n".join(["", "lost by more than 20 %:", *(losses(best["slo"][1], rivals) or ["nothing"])]))
    if options.json:
        Path(options.json).write_bytes(msgspec.json.encode({name: what[1] for name, what in best.items()}))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    known = [*OURS, *RIVALS, "hindsight"]
    made = argparse.ArgumentParser(prog="python -m benchmarks.autoscale", description=__doc__)
    made.add_argument("--traces", type=Path, help="a CSV file or a folder of them; without it there are no traces")
    made.add_argument("--scenarios", help=f"of: {', '.join(SCENARIOS)}; 'none' for the traces alone")
    made.add_argument("--deciders", default="slo", help=f"of: {', '.join(known)}")
    made.add_argument("--seeds", type=int, default=1, help="how many seeds, from --first-seed on")
    made.add_argument("--first-seed", type=int, default=0)
    made.add_argument("--delays", choices=["both", "own", "forked"], default="both", help="which start delays")
    made.add_argument("--chart", action="store_true", help="draw size and need over time")
    made.add_argument("--json", help="write every result to this file")
    return made


def chosen_loads(options: argparse.Namespace) -> list[Load]:
    """The loads that the options name, each with its own start delay and with that of a fork."""
    names = list(SCENARIOS) if options.scenarios is None else options.scenarios.split(",")
    files = traces_at(options.traces) if options.traces and options.traces.exists() else []
    if not files:
        print("no traces: give --traces PATH to play them too", file=sys.stderr)
    loads: list[Load] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        loads += [SCENARIOS[name](name, seed) for name in names if name != "none"]
        loads += [read_trace(file, seed) for file in files]
    own = loads if options.delays != "forked" else []
    forks = [msgspec.structs.replace(load, name=f"{load.name} (forked)", delay=FORKED) for load in loads]
    return [*own, *(forks if options.delays != "own" else [])]


def play(name: str, loads: Bounded, with_chart: bool) -> tuple[str, Sequence[Result]]:
    """One policy in all its settings; the best setting over all loads is reported."""
    if name == "hindsight":
        return "", [hindsight(load, limit) for load, limit in loads]
    settings = (OURS | RIVALS)[name]
    played = {
        each: [run(load, limit, name, start, with_chart) for load, limit in loads] for each, start in settings.items()
    }
    setting = min(played, key=lambda each: combined(result.score for result in played[each]))
    return setting, played[setting]


def hindsight(load: Load, limit: float) -> Result:
    """The best fixed size for this load, which nobody knows ahead. Larger ones than its score cannot be better."""
    best: Result | None = None
    for size in HINDSIGHT:
        if best is not None and size * load.length / limit > best.score:
            break
        if size * load.length < 0.8 * limit:
            continue
        start: Start = lambda given, size=size: static(size, given)  # noqa: E731
        result = run(load, limit, f"static {size}", start)
        best = result if best is None or result.score < best.score else best
    assert best is not None
    return best


if __name__ == "__main__":
    sys.exit(main())
