"""`python -m benchmarks.autoscale`: play every load with the chosen policies and print the scores."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.autoscale.report import compute_total, draw_bars, format_loads, format_policies, list_losses
from benchmarks.autoscale.rivals import ALL, POLICIES
from windlass.simulation.bound import Bound, compute_bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.load_sources import read_trace
from windlass.simulation.policies import HINDSIGHT, find_policies, play_hindsight
from windlass.simulation.run import SimulationResult, run
from windlass.simulation.scenarios import SCENARIOS, Scenario

FORKED = 0.05
"""The start delay of a forked worker. Every load is also played with it."""
NOT_RIVALS = {"slo", HINDSIGHT, "clairvoyant"}
Job = tuple[str, str, int, bool]
"""Policy, setting, index of the load, and whether to keep the timeline."""

playing: list[tuple[Load, Bound]] = []
"""The loads to play. Set before the processes fork, so that they need not be copied."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark with these command line arguments."""
    options = make_parser().parse_args(arguments)
    try:
        asked = [name for each in options.deciders.split(",") for name in (ALL if each == "all" else [each])]
        policies = find_policies(asked, POLICIES)
        loads = draw_loads(options)
    except InvalidLoad as error:
        print(f"benchmarks.autoscale: {error}", file=sys.stderr)
        return 2
    playing[:] = [(load, compute_bound(load)) for load in loads]
    best: dict[str, Sequence[SimulationResult]] = {}
    for name in policies:
        best[name] = play_all(name, keep_timeline=options.chart, processes=options.jobs)
        print_policy(name, best[name], with_chart=options.chart)
    print("\n" + "\n".join(format_policies(best)))
    rivals = {name: results for name, results in best.items() if name not in NOT_RIVALS}
    if "slo" in best and rivals:
        print("\n".join(["", "lost by more than 20 %:", *(list_losses(best["slo"], rivals) or ["nothing"])]))
    if options.json:
        Path(options.json).write_bytes(msgspec.json.encode(best))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autoscale", description=__doc__)
    parser.add_argument("--traces", type=Path, help="a CSV file, or a folder of CSV files, to play too")
    parser.add_argument("--scenarios", help=f"some of: {', '.join(SCENARIOS)}; 'none' plays the traces alone")
    parser.add_argument("--deciders", default="slo", help=f"all, or some of: {', '.join(POLICIES)}")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, starting at --first-seed")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--delays", choices=["both", "own", "forked"], default="both", help="which start delays")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--chart", action="store_true", help="draw size and need over time")
    parser.add_argument("--json", help="write every result to this file")
    return parser


def draw_loads(options: argparse.Namespace) -> list[Load]:
    """Return the loads that the options name, each with its own start delay and with that of a fork."""
    names = list(SCENARIOS) if options.scenarios is None else options.scenarios.split(",")
    files = list_traces(options.traces) if options.traces and options.traces.exists() else []
    if not files:
        print("no traces: use --traces PATH to play them too", file=sys.stderr)
    loads: list[Load] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        loads += [find_scenario(name).draw(name, seed) for name in names if name != "none"]
        loads += [read_trace(file, seed) for file in files]
    own = loads if options.delays != "forked" else []
    forks = [msgspec.structs.replace(load, name=f"{load.name} (forked)", delay=FORKED) for load in loads]
    return [*own, *(forks if options.delays != "own" else [])]


def list_traces(path: Path) -> list[Path]:
    """Return the CSV files at a path: the file itself, or those in the folder."""
    return sorted(path.glob("*.csv")) if path.is_dir() else [path]


def find_scenario(name: str) -> Scenario:
    """Return the scenario of this name."""
    if name not in SCENARIOS:
        raise InvalidLoad(f"Unknown scenario {name!r}. Use none, or some of {', '.join(SCENARIOS)}.")
    return SCENARIOS[name]


def play_all(name: str, *, keep_timeline: bool, processes: int) -> Sequence[SimulationResult]:
    """Play every load with every setting of a policy, and return the results of the setting with the best total."""
    settings = list(POLICIES[name]) or [""]
    jobs = [(name, setting, at, keep_timeline) for setting in settings for at in range(len(playing))]
    results = list(show_progress(name, play_jobs(jobs, processes), len(jobs)))
    size = len(playing)
    return min((results[at * size : (at + 1) * size] for at in range(len(settings))), key=compute_total)


def play_jobs(jobs: Sequence[Job], processes: int) -> Iterator[SimulationResult]:
    """Yield the results in the order of the jobs, computed by this number of processes."""
    if processes <= 1:
        yield from map(play_job, jobs)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(play_job, jobs)


def play_job(job: Job) -> SimulationResult:
    """Play one load with one policy in one setting."""
    name, setting, at, keep_timeline = job
    load, bound = playing[at]
    if name == HINDSIGHT:
        return play_hindsight(load, bound, keep_timeline=keep_timeline)
    return run(load, bound, name, POLICIES[name][setting], setting=setting, keep_timeline=keep_timeline)


def show_progress(name: str, results: Iterator[SimulationResult], total: int) -> Iterator[SimulationResult]:
    """Yield the results, and print how many are done to standard error."""
    live = sys.stderr.isatty()
    for count, result in enumerate(results, 1):
        if live:
            print(f"\r\033[K{name}: {count} of {total}", end="", file=sys.stderr, flush=True)
        yield result
    print("\r\033[K" if live else f"{name}: {total} runs\n", end="", file=sys.stderr, flush=True)


def print_policy(name: str, results: Sequence[SimulationResult], *, with_chart: bool) -> None:
    """Print the results of one policy."""
    settings = {result.setting for result in results}
    print(f"\n{name} {settings.pop() if len(settings) == 1 else ''}".rstrip(), flush=True)
    print("\n".join(format_loads(results)), flush=True)
    for result in results if with_chart else ():
        print(result.load, *draw_bars(result.timeline), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
