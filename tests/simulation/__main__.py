"""Run the simulation: one seed with its trace, a range of seeds, or as many as fit into some time.

python -m tests.simulation --seed 1234 --trace
python -m tests.simulation --seeds 0:2000
python -m tests.simulation --seconds 3600 --jobs 2
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

from tests.checker import records
from tests.simulation.run import Outcome, run
from tests.simulation.search import Totals, shrink, survey

CHUNK = 50


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if no seed broke a promise."""
    options = _parse(arguments)
    if options.seed is not None:
        return _show(options.seed, trace=options.trace, folder=options.out)
    first, _, last = options.seeds.partition(":")
    started = time.monotonic()
    totals = Totals()
    for found in _survey(range(int(first), int(last)), options.seconds, options.jobs):
        totals.add(found)
        if found.failures:
            break
    _print(f"{totals} in {time.monotonic() - started:.0f} s")
    for seed, findings in totals.failures.items():
        _print(describe_failure(seed, findings))
        _print(f"still with only these faults: {', '.join(sorted(shrink(seed).kinds)) or 'none'}")
    return 1 if totals.failures else 0


def describe_failure(seed: int, findings: Iterable[str]) -> str:
    """Return what went wrong, and how to see it again."""
    return "\n".join([f"seed {seed}:", *findings, f"replay it with: python -m tests.simulation --seed {seed} --trace"])


def _survey(seeds: range, seconds: float | None, jobs: int) -> Iterator[Totals]:
    """Yield what chunks of seeds did; with `seconds`, go on after the range until the time is over."""
    starts = count(seeds.start, CHUNK) if seconds else range(seeds.start, seeds.stop, CHUNK)
    chunks = (range(start, start + CHUNK if seconds else min(start + CHUNK, seeds.stop)) for start in starts)
    over = time.monotonic() + seconds if seconds else float("inf")
    if jobs == 1:
        for chunk in chunks:
            if time.monotonic() > over:
                return
            yield survey(chunk)
        return
    with ProcessPoolExecutor(jobs) as pool:
        while time.monotonic() < over:
            batch = [chunk for chunk, _ in zip(chunks, range(4 * jobs), strict=False)]
            if not batch:
                return
            yield from pool.map(survey, batch)


def _show(seed: int, *, trace: bool, folder: Path | None) -> int:
    outcome: Outcome = run(seed, trace=trace, digest=True)
    for line in outcome.trace:
        _print(line)
    _print(f"faults: {', '.join(sorted(outcome.faults.kinds)) or 'none'} until {outcome.faults.until / 1e6:g} s")
    _print(f"seed {seed}: {outcome.seconds:.1f} virtual seconds, {outcome.steps:,} steps, trace {outcome.digest}")
    _print(str(outcome.report))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        records.write(folder / f"seed-{seed}.jsonl", outcome.records)
    return 1 if outcome.findings else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event of every node")
    parser.add_argument("--out", type=Path, help="with --seed: write the recording to this folder, for the checker")
    parser.add_argument("--seeds", default="0:2000", help="run a range of seeds, FIRST:LAST (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="run seeds from FIRST on for this long")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use (default %(default)s)")
    return parser.parse_args(arguments)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
