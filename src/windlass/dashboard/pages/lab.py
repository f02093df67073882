"""The page Lab: what would have happened with another goal, other bounds or another policy.

A run replays the recorded load of a pool through the simulator. Its result is kept in this process for a while, so that
the page can be reloaded without running it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from windlass.clock import entropy
from windlass.core.names import shorten
from windlass.core.times import Micros, duration, micros, to_instant
from windlass.dashboard.forms import read_duration, read_number
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.time_chart import Line, TimeChart, draw_time_chart
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask
from windlass.operations import pool_history, pool_simulation, pools
from windlass.operations.caller import Scope
from windlass.operations.pool_simulation import PoolSimulation, Trial
from windlass.operations.pools import PoolView
from windlass.simulation.policies import NAMES
from windlass.simulation.run import SimulationResult
from windlass.stores.series import SERIES_KEPT, Resolution

pages = Pages()

PERIODS = ("5m", "15m", "30m", "1h")
MOST_KEPT = 20
LEDGER = 12
FEW = 0.02
"""The numbers of arrivals are by minute, so this share of the tasks may seem to be missing."""
SECOND: Micros = 1_000_000
Text = Annotated[str, Meta(max_length=128)]


class LabForm(Struct, frozen=True, kw_only=True):
    """What to replay, and with what. An empty field is as the pool has it."""

    pool: Text = ""
    since: Text = "1h"
    until: Text = ""
    """The end of the replayed time, in the visitor's zone; empty for now."""
    policy: Text = "slo"
    wait: Text = ""
    min: Text = ""
    max: Text = ""


class LabQuery(LabForm, frozen=True, kw_only=True):
    """What was replayed, and which run shows the result."""

    run: Text = ""


class Measure(Struct, frozen=True, kw_only=True):
    """One number of both runs."""

    name: str
    now: str
    other: str
    verdict: str
    """better, worse or the same."""


class Replay(Struct, frozen=True, kw_only=True):
    """The result of one run."""

    simulation: PoolSimulation
    start: Micros
    """The beginning of the replayed time."""
    end: Micros
    arrived: int | None
    """How many tasks arrived in that time; None if that is no longer recorded."""

    @property
    def missing(self) -> int:
        """Return how many of the tasks that arrived could not be replayed, if they are more than a few."""
        missing = (self.arrived or 0) - self.simulation.tasks
        return missing if missing > self.simulation.tasks * FEW else 0

    @property
    def now(self) -> SimulationResult:
        """Return how the pool would have done as it is."""
        return self.simulation.results[0]

    @property
    def other(self) -> SimulationResult:
        """Return how the trial would have done."""
        return self.simulation.results[1]

    @property
    def measures(self) -> list[Measure]:
        """Return the numbers side by side. Less is better for all of them."""
        now, other = self.now, self.other
        late = (round(now.late * now.tasks), round(other.late * other.tasks))
        return [
            _measure("Late tasks", *late, "{:,.0f}"),
            _measure("Median wait", now.wait_p50, other.wait_p50, "{:.2f} s"),
            _measure("95 % wait less than", now.wait_p95, other.wait_p95, "{:.2f} s"),
            _measure("99 % wait less than", now.wait_p99, other.wait_p99, "{:.2f} s"),
            _measure("Longest wait", now.wait_max, other.wait_max, "{:.2f} s"),
            _measure("Worker-hours", now.worker_seconds / 3_600, other.worker_seconds / 3_600, "{:.2f}"),
            _measure("Resizes per hour", now.resizes_per_hour, other.resizes_per_hour, "{:.0f}"),
        ]

    @property
    def sentence(self) -> str:
        """Return the result in one sentence."""
        now, other = self.now, self.other
        late = f"late tasks {round(now.late * now.tasks):,} → {round(other.late * other.tasks):,}"
        hours = f"worker-hours {now.worker_seconds / 3_600:.2f} → {other.worker_seconds / 3_600:.2f}"
        return f"{late} · {hours} · 95 % wait less than {now.wait_p95:.2f} s → {other.wait_p95:.2f} s"


class LabPage(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    pools: Sequence[PoolView]
    view: PoolView | None
    form: LabForm
    found: Replay | None = None
    gone: bool = False
    """True if the run is no longer kept."""
    charts: Markup = Markup("")
    policies: Sequence[str] = NAMES
    periods: Sequence[str] = PERIODS
    ledger: int = LEDGER


class KeptRuns:
    """The latest runs of this process, by a random id."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._runs, self._lock = most, OrderedDict[str, Replay](), Lock()

    def add(self, run: Replay) -> str:
        """Keep a run and return its id. The oldest is dropped."""
        id = f"{entropy(1)():016x}"
        with self._lock:
            self._runs[id] = run
            while len(self._runs) > self._most:
                self._runs.popitem(last=False)
        return id

    def get(self, id: str) -> Replay | None:
        """Return a run; None if it is no longer kept."""
        with self._lock:
            return self._runs.get(id)


_kept = KeptRuns()


@pages.show("/lab", "lab.html", title="Lab", nav=Nav("Lab", "l"), unrestricted=True, every=60)
def show_lab(visit: Visit, query: LabQuery) -> LabPage:
    """Show the form, and the result of a run."""
    found = pools.get_all(visit.access)
    name = query.pool or (found[0].name if found else "")
    view = next((each for each in found if each.name == name), None)
    run = _kept.get(query.run) if query.run else None
    return LabPage(
        pools=found,
        view=view,
        form=query,
        found=run,
        gone=bool(query.run) and run is None,
        charts=Markup("") if run is None else draw_charts(visit, run),
    )


@pages.act("/lab/run", scope=Scope.READ, unrestricted=True)
def run_lab(visit: Visit, form: LabForm) -> Goto:
    """Replay the recorded load of a pool as it is, and with other settings."""
    trial = Trial(
        policy=form.policy,
        wait=read_duration("wait", form.wait),
        min=read_number("min", form.min),
        max=read_number("max", form.max),
    )
    end = _read_end(visit, form.until)
    simulation = pool_simulation.compare(visit.access, form.pool, [Trial(), trial], since=form.since, until=end)
    end = visit.now if end is None else end
    start = end - micros(duration(form.since, "since"))
    arrived = _count_arrivals(visit, form.pool, start, end)
    id = _kept.add(Replay(simulation=simulation, start=start, end=end, arrived=arrived))
    params: Mapping[str, Any] = {**asdict(form), "run": id}
    return Goto(path="lab", params=params)


def _read_end(visit: Visit, text: str) -> Micros | None:
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        right = "Use a date and time such as 2027-01-31 06:00, or leave it empty for now."
        raise InvalidTask(f"until={shorten(text)} is not a date and time. {right}") from None
    zone = visit.times.zone
    return to_instant(moment.replace(tzinfo=zone) if moment.tzinfo is None and zone else moment.astimezone())


def _count_arrivals(visit: Visit, pool: str, start: Micros, end: Micros) -> int | None:
    """Return how many tasks arrived in a time, by full minutes within it; None if it is no longer recorded."""
    if start < visit.now - micros(SERIES_KEPT):
        return None
    queues = pools.get(visit.access, pool).queues
    last = timedelta(microseconds=visit.now - start)
    points = pool_history.read_load(visit.access, queues, Resolution.MINUTE, last=last)
    return sum(point.arrived for point in points if start <= point.at <= end - Resolution.MINUTE)


def _measure(name: str, now: float, other: float, form: str) -> Measure:
    words = form.format(now), form.format(other)
    verdict = "the same" if words[0] == words[1] else "better" if other < now else "worse"
    return Measure(name=name, now=words[0], other=words[1], verdict=verdict)


def draw_charts(visit: Visit, run: Replay) -> Markup:
    """Draw workers and waits of both runs, second by second."""
    now, other = run.now.timeline, run.other.timeline
    seconds = max(1, len(now.ready))
    start, end = run.start, run.start + seconds * SECOND

    def line(label: str, look: str, values: Sequence[float], *, steps: bool = True, unit: str = "") -> Line:
        points = [(start + second * SECOND, float(value)) for second, value in enumerate(values)]
        return Line(label=label, look=look, points=points, steps=steps, unit=unit)

    sizes = TimeChart(
        title="Workers, second by second",
        start=start,
        end=end,
        layers=[line("as it is", "before", now.ready), line("trial", "after", other.ready)],
        zone=visit.times.zone,
        whole=True,
        height=200,
    )
    waits = TimeChart(
        title="Longest wait, second by second",
        start=start,
        end=end,
        layers=[
            line("as it is", "before", now.waits, steps=False, unit="s"),
            line("trial", "after", other.waits, steps=False, unit="s"),
        ],
        zone=visit.times.zone,
        height=160,
        goal=run.other.goal if max([0.0, *now.waits, *other.waits]) >= run.other.goal / 4 else None,
        goal_label=f"goal {run.other.goal:g} s",
    )
    return Markup(draw_time_chart(sizes) + draw_time_chart(waits))
