"""From what a user names to a load: a scenario, a file, or arrivals in a list."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from windlass.core.times import Duration, duration
from windlass.simulation.load import Arrival, InvalidLoad, Load
from windlass.simulation.scenarios import SCENARIOS
from windlass.simulation.traces import make_load, read_trace
from windlass.simulation.wishes import NO_OVERRIDES, LoadOverrides

LoadSource: TypeAlias = str | Path | Sequence[Arrival] | Load
"""The name of a scenario, the path of a CSV file, (second, run seconds) for each task, or a load that is there."""
MOST_WORKERS = 10_000


def find_load(named: LoadSource, *, seed: int = 0, wishes: LoadOverrides = NO_OVERRIDES) -> Load:
    """The load that is meant."""
    if isinstance(named, Load):
        wishes.check_none(named.name)
        return named
    if isinstance(named, Path):
        return read_trace(named, seed, wishes)
    if isinstance(named, str):
        return find_load_by_name(named, seed, wishes)
    wishes.check_none("arrivals")
    return make_load("arrivals", sorted(check_arrivals(named)))


def find_load_by_name(name: str, seed: int, wishes: LoadOverrides) -> Load:
    """A scenario, however its words are joined, or a file."""
    spelled = {normalize_name(known): known for known in SCENARIOS}
    if normalize_name(name) in spelled:
        known = spelled[normalize_name(name)]
        return SCENARIOS[known].draw(known, seed, wishes)
    if name.endswith(".csv") or Path(name).is_file():
        return read_trace(Path(name), seed, wishes)
    near = get_close_matches(normalize_name(name), spelled, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InvalidLoad(f"load={name!r} is no scenario and no file; {hint}there are {', '.join(spelled)}, or FILE.csv")


def normalize_name(name: str) -> str:
    """A name as it is easiest to type: on/off is on-off."""
    return "-".join(name.lower().replace("/", " ").replace("_", " ").replace("-", " ").split())


def check_arrivals(arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
    """The arrivals, if all of them are times."""
    for number, (at, service) in enumerate(arrivals):
        if not (isfinite(at) and isfinite(service) and at >= 0 and service >= 0):
            raise InvalidLoad(
                f"load[{number}]=({at!r}, {service!r}) is no arrival; give (second, run seconds) from 0 up"
            )
    return arrivals


def adjust_load(
    load: Load,
    *,
    wait: Duration | None = None,
    floor: int | None = None,
    ceiling: int | None = None,
    start_delay: Duration | None = None,
) -> Load:
    """The load with what the user says about goal and pool; the rest stays as the load has it."""
    wanted = replace(
        load,
        wait=load.wait if wait is None else parse_seconds(wait, "wait", least=0.1),
        delay=load.delay if start_delay is None else parse_seconds(start_delay, "start_delay", least=0.0),
        floor=load.floor if floor is None else floor,
        ceiling=load.ceiling if ceiling is None else ceiling,
    )
    if not 0 <= wanted.floor <= wanted.ceiling <= MOST_WORKERS or wanted.ceiling < 1:
        raise InvalidLoad(
            f"floor={wanted.floor}, ceiling={wanted.ceiling} is no pool; give 0 <= floor <= ceiling <= {MOST_WORKERS}"
        )
    return wanted


def parse_seconds(value: Duration, field: str, *, least: float) -> float:
    """A length of time as the simulator counts it."""
    length = duration(value, field).total_seconds()
    if not least <= length <= 86_400:
        raise InvalidLoad(f"{field}={value!r} cannot be simulated; give {least:g} s to a day")
    return length
