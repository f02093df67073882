"""Loads from files: binned counts, single requests, and arrivals with their run times.

The header says which: `timestamp,value`; `TIMESTAMP,ContextTokens,GeneratedTokens`; `second,run`. Long binned ones are
cut to a stretch of bins whose place depends on the seed, so that several seeds see several weeks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from math import isfinite
from pathlib import Path
from random import Random

from windlass.simulation.chance import draw_poisson, make_service
from windlass.simulation.load import Arrival, InvalidLoad, Load
from windlass.simulation.wishes import MOST_TASKS, NO_OVERRIDES, LoadOverrides

BINS = 480
"""How many bins of a binned trace are replayed."""
BIN_SECONDS = 30
MEAN_RATE = 2.5
MEAN_SERVICE, VARIATION = 2.0, 1.5
AFTER = 30
"""Seconds for which a load goes on after its last arrival."""
FORMS = "`timestamp,value`, `second,run` or `TIMESTAMP,ContextTokens,GeneratedTokens`"


def list_traces(place: Path) -> list[Path]:
    """The CSV files at a path: itself, or those in the folder."""
    return sorted(place.glob("*.csv")) if place.is_dir() else [place]


def read_trace(path: Path, seed: int, wishes: LoadOverrides = NO_OVERRIDES) -> Load:
    """One file as a load; its header says which kind it is."""
    wishes.check()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(islice(csv.DictReader(file), MOST_TASKS + 1))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidLoad(f"{path} cannot be read: {error}") from None
    if not rows:
        raise InvalidLoad(f"{path} holds no rows; its first line is one of {FORMS}")
    wishes.check_size(len(rows))
    if "value" in rows[0]:
        return draw_binned(path, rows, seed, wishes)
    wishes.check_none(path.name)
    if "GeneratedTokens" in rows[0]:
        return make_load(path.stem, sorted(read_requests(path, rows)))
    if {"second", "run"} <= rows[0].keys():
        return make_load(path.stem, sorted(read_arrivals(path, rows)))
    raise InvalidLoad(f"{path} begins with {', '.join(rows[0])}; its first line should be one of {FORMS}")


def draw_binned(path: Path, rows: Sequence[dict[str, str]], seed: int, wishes: LoadOverrides) -> Load:
    """Counts scaled to a mean rate, each bin replayed for half a minute."""
    rng = Random(f"{path.stem}/{seed}")
    counts = [parse_number(path, at, row, "value") for at, row in enumerate(rows)]
    if not sum(counts) > 0:
        raise InvalidLoad(f"{path} counts nothing: the sum of `value` is {sum(counts):g}")
    scale = (wishes.rate or MEAN_RATE) * len(counts) / sum(counts)
    begin = rng.randrange(max(1, len(counts) - BINS))
    rates = [count * scale for count in counts[begin : begin + BINS]]
    length = wishes.seconds or len(rates) * BIN_SECONDS
    wishes.check_size(sum(rates) / len(rates) * length)
    moments = draw_poisson(rng, length, lambda second: rates[second * len(rates) // length])
    mean = wishes.service or MEAN_SERVICE
    service = make_service(rng, wishes.distribution, mean, VARIATION if wishes.cv2 is None else wishes.cv2)
    drawn = [(at, service()) for at in moments]
    return Load(name=path.stem, length=length, wait=10, delay=25, arrivals=drawn, mean=mean)


def read_requests(path: Path, rows: Sequence[dict[str, str]]) -> Iterator[Arrival]:
    """Single requests as they came: nothing is drawn."""
    first: float | None = None
    for at, row in enumerate(rows):
        try:
            moment = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        except ValueError:
            raise InvalidLoad(f"{path}, row {at + 1}: TIMESTAMP={row['TIMESTAMP']!r} is no time") from None
        first = moment if first is None else first
        yield moment - first, 0.6 + 0.05 * parse_number(path, at, row, "GeneratedTokens")


def read_arrivals(path: Path, rows: Sequence[dict[str, str]]) -> Iterator[Arrival]:
    """Each task's second and run time, as somebody has written them down."""
    for at, row in enumerate(rows):
        yield parse_number(path, at, row, "second"), parse_number(path, at, row, "run")


def parse_number(path: Path, at: int, row: dict[str, str], column: str) -> float:
    """One cell, which holds a number that is not negative."""
    try:
        value = float(row[column] or "")
    except (ValueError, TypeError):
        value = -1.0
    if not value >= 0 or not isfinite(value):
        raise InvalidLoad(f"{path}, row {at + 1}: {column}={row[column]!r} is not a number from 0 up")
    return value


def make_load(name: str, tasks: Sequence[Arrival], *, wait: float = 10, delay: float = 10) -> Load:
    """A load of tasks in the order of their arrival, as they are; the first comes at second 0 or later."""
    if not tasks:
        raise InvalidLoad(f"{name} has no arrivals; give (second, run seconds) for each task")
    begin = min(0.0, tasks[0][0])
    moved = [(at - begin, service) for at, service in tasks]
    mean = sum(service for _, service in moved) / len(moved)
    length = int(moved[-1][0]) + AFTER
    if length > 1_000_000:
        raise InvalidLoad(f"{name} lasts {length:,} s; give at most 1,000,000, counted from the first task")
    return Load(name=name, length=length, wait=wait, delay=delay, arrivals=moved, mean=max(mean, 1e-6))
