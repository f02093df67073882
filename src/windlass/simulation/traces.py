"""Loads from files: binned counts (`timestamp,value`) and single requests (`TIMESTAMP,ContextTokens,GeneratedTokens`).

The files are not part of the repository; a folder or file is named at the command line. Long ones are cut to a stretch
of bins whose place depends on the seed, so that several seeds see several weeks.
"""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from random import Random

from windlass.simulation.load import Load, lognormal, poisson

BINS = 480
"""How many bins of a binned trace are replayed."""
BIN_SECONDS = 30
MEAN_RATE = 2.5


def traces_at(place: Path) -> list[Path]:
    """The CSV files at a path: itself, or those in the folder."""
    return sorted(place.glob("*.csv")) if place.is_dir() else [place]


def read_trace(path: Path, seed: int) -> Load:
    """One file as a load; its header says which kind it is."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return requests(path.stem, rows, seed) if "GeneratedTokens" in rows[0] else binned(path.stem, rows, seed)


def binned(name: str, rows: list[dict[str, str]], seed: int) -> Load:
    """Counts scaled to a mean rate, each bin replayed for half a minute."""
    rng = Random(f"{name}/{seed}")
    counts = [float(row["value"]) for row in rows]
    scale = MEAN_RATE * len(counts) / sum(counts)
    begin = rng.randrange(max(1, len(counts) - BINS))
    rates = [count * scale for count in counts[begin : begin + BINS]]
    moments = poisson(rng, len(rates) * BIN_SECONDS, lambda t: rates[t // BIN_SECONDS])
    service = lognormal(rng, 2.0, 1.5)
    arrivals = [(at, service()) for at in moments]
    return Load(
        name=name, length=len(rates) * BIN_SECONDS, wait=10, delay=25, arrivals=arrivals, mean=2.0
    )  # fmt: skip


def requests(name: str, rows: list[dict[str, str]], seed: int) -> Load:
    """Single requests as they came; the seed changes nothing, since nothing is drawn."""
    del seed
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
    services = [0.6 + 0.05 * float(row["GeneratedTokens"]) for row in rows]
    first = min(moments)
    arrivals = sorted((at - first, service) for at, service in zip(moments, services, strict=True))
    mean = sum(services) / len(services)
    return Load(name=name, length=int(arrivals[-1][0]) + 30, wait=10, delay=10, arrivals=arrivals, mean=mean)
