"""`python -m benchmarks.autoscale`: play every load with the chosen policies and print the scores."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from windlass.simulation.bound import Bound, compute_bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.policies import POLICIES, find_policies, play, settings_of
from windlass.simulation.report import draw_bars, format_loads, list_losses, format_policies, compute_total
from windlass.simulation.results import SimulationResult
from windlass.simulation.scenarios import SCENARIOS, Scenario
from windlass.simulation.traces import read_trace, list_traces

FORKED = 0.05
"""The start delay of a forked worker: everything is repeated with it."""
LIMITS = {"slo", "hindsight", "clairvoyant"}
"""What is no rival of ours."""
Bounded = tuple[Load, Bound]

playing: list[Bounded] = []
"""What is played. It is set before the processes fork, which spares them the arrivals."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    options = parser().parse_args(arguments)
    try:
        policies = find_policies(options.deciders.split(","))
        loads = chosen_loads(options)
    except InvalidLoad as error:
        print(f"benchmarks.autoscale: {error}", file=sys.stderr)
        return 2
    playing[:] = [(load, compute_bound(load)) for load in loads]
    best: dict[str, Sequence[SimulationResult]] = {}
    for name in policies:
        best[name] = play_all(name, kept=options.chart, jobs=options.jobs)
        print_policy(name, best[name], with_chart=options.chart)
    print("\n" + "\n".join(format_policies(best)))
    rivals = {name: results for name, results in best.items() if name not in LIMITS}
    if "slo" in best and rivals:
        print("\n".join(["", "lost by more than 20 %:", *(list_losses(best["slo"], rivals) or ["nothing"])]))
    if options.json:
        Path(options.json).write_bytes(msgspec.json.encode(best))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.autoscale", description=__doc__)
    made.add_argument("--traces", type=Path, help="a CSV file or a folder of them; without it there are no traces")
    made.add_argument("--scenarios", help=f"of: {', '.join(SCENARIOS)}; 'none' for the traces alone")
    made.add_argument("--deciders", default="slo", help=f"all, or of: {', '.join(POLICIES)}")
    made.add_argument("--seeds", type=int, default=1, help="how many seeds, from --first-seed on")
    made.add_argument("--first-seed", type=int, default=0)
    made.add_argument("--delays", choices=["both", "own", "forked"], default="both", help="which start delays")
    made.add_argument("--jobs", type=int, default=1, help="how many processes play loads side by side")
    made.add_argument("--chart", action="store_true", help="draw size and need over time")
    made.add_argument("--json", help="write every result to this file")
    return made


def chosen_loads(options: argparse.Namespace) -> list[Load]:
    """The loads that the options name, each with its own start delay and with that of a fork."""
    names = list(SCENARIOS) if options.scenarios is None else options.scenarios.split(",")
    files = list_traces(options.traces) if options.traces and options.traces.exists() else []
    if not files:
        print("no traces: give --traces PATH to play them too", file=sys.stderr)
    loads: list[Load] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        loads += [scenario(name).draw(name, seed) for name in names if name != "none"]
        loads += [read_trace(file, seed) for file in files]
    own = loads if options.delays != "forked" else []
    forks = [msgspec.structs.replace(load, name=f"{load.name} (forked)", delay=FORKED) for load in loads]
    return [*own, *(forks if options.delays != "own" else [])]


def scenario(name: str) -> Scenario:
    """The family of that name."""
    if name not in SCENARIOS:
        raise InvalidLoad(f"there is no scenario {name!r}; give none, or some of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def play_all(name: str, *, kept: bool, jobs: int) -> Sequence[SimulationResult]:
    """One policy over every load in all its settings; the setting that is best over all of them is reported."""
    settings = settings_of(name)
    questions = [(name, setting, at, kept) for setting in settings for at in range(len(playing))]
    results = list(watched(name, answers(questions, jobs), len(questions)))
    size = len(playing)
    return min((results[at * size : (at + 1) * size] for at in range(len(settings))), key=compute_total)


def answers(questions: Sequence[tuple[str, str, int, bool]], jobs: int) -> Iterator[SimulationResult]:
    """The results in the order of the questions, worked out side by side if so wanted."""
    if jobs <= 1:
        yield from map(answer, questions)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(answer, questions)


def answer(question: tuple[str, str, int, bool]) -> SimulationResult:
    """One policy in one setting over one load."""
    name, setting, at, kept = question
    load, limit = playing[at]
    return play(name, setting, load, limit, kept=kept)


def watched(name: str, results: Iterator[SimulationResult], many: int) -> Iterator[SimulationResult]:
    """The same results; how far they have come is told on standard error."""
    live = sys.stderr.isatty()
    for count, result in enumerate(results, 1):
        if live:
            print(f"\r\033[K{name}: {count} of {many}", end="", file=sys.stderr, flush=True)
        yield result
    print("\r\033[K" if live else f"{name}: {many} runs\n", end="", file=sys.stderr, flush=True)


def print_policy(name: str, results: Sequence[SimulationResult], *, with_chart: bool) -> None:
    """The lines of one policy."""
    settings = {result.setting for result in results}
    print(f"\n{name} {settings.pop() if len(settings) == 1 else ''}".rstrip(), flush=True)
    print("\n".join(format_loads(results)), flush=True)
    for result in results if with_chart else ():
        print(result.load, *draw_bars(result.timeline), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
