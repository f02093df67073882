"""Find or read a load: a scenario by name, a CSV file, a list of arrivals, or the history of a store.

The header of a CSV file says its format: counts per bin (`timestamp,value`), single requests
(`TIMESTAMP,ContextTokens,GeneratedTokens`), or arrivals with run times (`second,run`). Of a long file of counts, a
stretch of bins that depends on the seed is played.

In the history of a store, a task arrives when it was submitted or due. Its run time is that of its last attempt if it
completed, else the mean of its handler. Tasks that were pruned, or submitted before the requested time, are missing.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from math import isfinite
from pathlib import Path
from random import Random
from typing import TypeAlias
from uuid import UUID

from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import Duration, Micros, duration, micros
from windlass.simulation.load import (
    MOST_TASKS,
    NO_OVERRIDES,
    Arrival,
    InvalidLoad,
    Load,
    LoadOverrides,
    draw_poisson,
    make_service,
)
from windlass.simulation.scenarios import SCENARIOS
from windlass.stores.protocol import Cursor, Filter, TaskReader

LoadSource: TypeAlias = str | Path | Sequence[Arrival] | Load
"""The name of a scenario, the path of a CSV file, (second, run seconds) for each task, or a load."""
MOST_WORKERS = 10_000
BINS = 480
"""The number of bins of a trace that are played."""
BIN_SECONDS = 30
MEAN_RATE = 2.5
MEAN_SERVICE, VARIATION = 2.0, 1.5
AFTER = 30
"""Seconds that a load continues after its last arrival."""
FORMATS = "`timestamp,value`, `second,run` or `TIMESTAMP,ContextTokens,GeneratedTokens`"
LEAST_COMPLETED = 20
"""Completed tasks that a history needs at least."""
MOST_HISTORY = 500_000
PAGE = 1_000
_LAST_ID = TaskId(UUID(int=2**128 - 1))


def find_load(source: LoadSource, *, seed: int = 0, overrides: LoadOverrides = NO_OVERRIDES) -> Load:
    """Return the load that a user named."""
    if isinstance(source, Load):
        overrides.check_none(source.name)
        return source
    if isinstance(source, Path):
        return read_trace(source, seed, overrides)
    if isinstance(source, str):
        return find_load_by_name(source, seed, overrides)
    overrides.check_none("arrivals")
    return make_load("arrivals", sorted(check_arrivals(source)))


def find_load_by_name(name: str, seed: int, overrides: LoadOverrides) -> Load:
    """Return the load of a scenario or a CSV file. `on/off`, `on_off` and `on-off` are the same name."""
    scenarios = {normalize_name(known): known for known in SCENARIOS}
    if normalize_name(name) in scenarios:
        known = scenarios[normalize_name(name)]
        return SCENARIOS[known].draw(known, seed, overrides)
    if name.endswith(".csv") or Path(name).is_file():
        return read_trace(Path(name), seed, overrides)
    near = get_close_matches(normalize_name(name), scenarios, 1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise InvalidLoad(f"No scenario or file for load={name!r}. {hint}Use {', '.join(scenarios)}, or FILE.csv.")


def normalize_name(name: str) -> str:
    """Return a name in lower case, with its words joined by hyphens."""
    return "-".join(name.lower().replace("/", " ").replace("_", " ").replace("-", " ").split())


def check_arrivals(arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
    """Return the arrivals, or raise InvalidLoad if one of them has a negative or infinite time."""
    for number, (at, service) in enumerate(arrivals):
        if not (isfinite(at) and isfinite(service) and at >= 0 and service >= 0):
            raise InvalidLoad(
                f"Invalid load[{number}]=({at!r}, {service!r}). Use (second, run seconds), both 0 or more."
            )
    return arrivals


def adjust_load(
    load: Load,
    *,
    wait: Duration | None = None,
    min: int | None = None,
    max: int | None = None,
    start_delay: Duration | None = None,
) -> Load:
    """Return the load with another goal, bounds or start delay. None keeps the value of the load."""
    adjusted = replace(
        load,
        wait=load.wait if wait is None else parse_seconds(wait, "wait", least=0.1),
        delay=load.delay if start_delay is None else parse_seconds(start_delay, "start_delay", least=0.0),
        min=load.min if min is None else min,
        max=load.max if max is None else max,
    )
    if not 0 <= adjusted.min <= adjusted.max <= MOST_WORKERS or adjusted.max < 1:
        bounds = f"min={adjusted.min}, max={adjusted.max}"
        raise InvalidLoad(f"Invalid bounds {bounds}. Use 0 <= min <= max <= {MOST_WORKERS}, and a max above 0.")
    return adjusted


def parse_seconds(value: Duration, field: str, *, least: float) -> float:
    """Return a duration in seconds, or raise InvalidLoad if it is out of range."""
    length = duration(value, field).total_seconds()
    if not least <= length <= 86_400:
        raise InvalidLoad(f"{field}={value!r} is out of range. Use {least:g} s to one day.")
    return length


def read_trace(path: Path, seed: int, overrides: LoadOverrides = NO_OVERRIDES) -> Load:
    """Read a CSV file as a load. Its header says the format."""
    overrides.check()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(islice(csv.DictReader(file), MOST_TASKS + 1))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidLoad(f"Cannot read {path}: {error}") from None
    if not rows:
        raise InvalidLoad(f"{path} has no rows. Its first line must be {FORMATS}.")
    overrides.check_size(len(rows))
    if "value" in rows[0]:
        return draw_binned(path, rows, seed, overrides)
    overrides.check_none(path.name)
    if "GeneratedTokens" in rows[0]:
        return make_load(path.stem, sorted(read_requests(path, rows)))
    if {"second", "run"} <= rows[0].keys():
        return make_load(path.stem, sorted(read_arrivals(path, rows)))
    raise InvalidLoad(f"{path} has the columns {', '.join(rows[0])}. Its first line must be {FORMATS}.")


def draw_binned(path: Path, rows: Sequence[dict[str, str]], seed: int, overrides: LoadOverrides) -> Load:
    """Draw a load from counts, scaled to a mean rate. Each bin lasts half a minute."""
    rng = Random(f"{path.stem}/{seed}")
    counts = [parse_number(path, at, row, "value") for at, row in enumerate(rows)]
    if not sum(counts) > 0:
        raise InvalidLoad(f"{path} has no arrivals: the sum of `value` is {sum(counts):g}.")
    scale = (overrides.rate or MEAN_RATE) * len(counts) / sum(counts)
    begin = rng.randrange(max(1, len(counts) - BINS))
    rates = [count * scale for count in counts[begin : begin + BINS]]
    length = overrides.seconds or len(rates) * BIN_SECONDS
    overrides.check_size(sum(rates) / len(rates) * length)
    moments = draw_poisson(rng, length, lambda second: rates[second * len(rates) // length])
    mean = overrides.service or MEAN_SERVICE
    service = make_service(rng, overrides.distribution, mean, VARIATION if overrides.cv2 is None else overrides.cv2)
    drawn = [(at, service()) for at in moments]
    return Load(name=path.stem, length=length, wait=10, delay=25, arrivals=drawn, mean=mean)


def read_requests(path: Path, rows: Sequence[dict[str, str]]) -> Iterator[Arrival]:
    """Yield recorded requests. The run time follows from the generated tokens."""
    first: float | None = None
    for at, row in enumerate(rows):
        try:
            moment = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        except ValueError:
            raise InvalidLoad(f"{path}, row {at + 1}: TIMESTAMP={row['TIMESTAMP']!r} is not a time.") from None
        first = moment if first is None else first
        yield moment - first, 0.6 + 0.05 * parse_number(path, at, row, "GeneratedTokens")


def read_arrivals(path: Path, rows: Sequence[dict[str, str]]) -> Iterator[Arrival]:
    """Yield the second and run time of each recorded task."""
    for at, row in enumerate(rows):
        yield parse_number(path, at, row, "second"), parse_number(path, at, row, "run")


def parse_number(path: Path, at: int, row: dict[str, str], column: str) -> float:
    """Return the number in a cell, or raise InvalidLoad if it is missing or negative."""
    try:
        value = float(row[column] or "")
    except (ValueError, TypeError):
        value = -1.0
    if not value >= 0 or not isfinite(value):
        raise InvalidLoad(f"{path}, row {at + 1}: {column}={row[column]!r} is not a number of 0 or more.")
    return value


def make_load(name: str, tasks: Sequence[Arrival], *, wait: float = 10, delay: float = 10) -> Load:
    """Make a load from sorted arrivals. Negative times are shifted so that the first task arrives at second 0."""
    if not tasks:
        raise InvalidLoad(f"{name} has no arrivals. Use (second, run seconds) for each task.")
    begin = min(0.0, tasks[0][0])
    moved = [(at - begin, service) for at, service in tasks]
    mean = sum(service for _, service in moved) / len(moved)
    length = int(moved[-1][0]) + AFTER
    if length > 1_000_000:
        raise InvalidLoad(f"{name} lasts {length:,} s. The limit is 1,000,000 s from the first task.")
    return Load(name=name, length=length, wait=wait, delay=delay, arrivals=moved, mean=max(mean, 1e-6))


def read_history(
    store: TaskReader, *, now: Micros, since: timedelta = timedelta(hours=1), queue: str | None = None
) -> Load:
    """Read what arrived in one queue, or in all, in the time before `now`."""
    begin = now - micros(since)
    tasks = [task for task in find_tasks(store, begin, now, queue) if get_runnable_time(task) is not None]
    runs = group_run_times(tasks)
    completed = sum(len(times) for times in runs.values())
    if completed < LEAST_COMPLETED:
        where = "The store" if queue is None else f"Queue {queue!r}"
        raise InvalidLoad(
            f"{where} completed {completed} tasks within since={since}, but a simulation needs {LEAST_COMPLETED}. "
            "Use a longer since, or another queue."
        )
    means = {handler: mean(times) for handler, times in runs.items()}
    overall = mean([each for times in runs.values() for each in times])
    arrivals: list[Arrival] = []
    for task in tasks:
        at, own = get_runnable_time(task), get_run_time(task)
        if at is not None and at <= now:
            arrivals.append(((at - begin) / 1e6, means.get(task.handler, overall) if own is None else own))
    return make_load("recorded" if queue is None else f"recorded {queue}", sorted(arrivals), wait=5, delay=0.05)


def find_tasks(store: TaskReader, begin: Micros, end: Micros, queue: str | None) -> Iterator[Task]:
    """Yield the tasks submitted between two times, newest first."""
    after: Cursor | None = Cursor(end, _LAST_ID)
    for _ in range(MOST_HISTORY // PAGE):
        page = store.find(Filter(queue=queue), limit=PAGE, after=after)
        yield from (task for task in page.tasks if task.submitted >= begin)
        after = page.after
        if after is None or after.submitted < begin:
            return
    raise InvalidLoad(f"since covers more than {MOST_HISTORY:,} tasks. Use a shorter time.")


def get_runnable_time(task: Task) -> Micros | None:
    """Return when the task first became runnable; None if it never did."""
    if task.claimed is None and task.state is not State.RUNNABLE:
        return None
    before = task.attempts + task.crashes + task.losses - (task.finished is not None)
    # After a retry, `due` is the time of that retry, so the submit time is the best estimate.
    return task.submitted if before > 0 else max(task.submitted, task.due)


def group_run_times(tasks: Sequence[Task]) -> dict[str, list[float]]:
    """Return the run times of completed tasks by handler."""
    runs: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if (seconds := get_run_time(task)) is not None:
            runs[task.handler].append(seconds)
    return runs


def get_run_time(task: Task) -> float | None:
    """Return the seconds of the last attempt; None unless the task completed."""
    if task.state is not State.COMPLETED or task.finished is None or task.claimed is None:
        return None
    return max(0.0, (task.finished - task.claimed) / 1e6)


def mean(times: Sequence[float]) -> float:
    return sum(times) / len(times)
