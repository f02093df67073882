"""The page Lab: what would have happened with another goal, other bounds or another policy.

A run replays the recorded load of a pool through the simulator. Its result is kept in this process for a while, so that
the page can be reloaded without running it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from windlass.clock import entropy
from windlass.core.times import Micros
from windlass.dashboard.forms import read_number
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.time_chart import Line, TimeChart, draw_time_chart
from windlass.dashboard.visit import Visit
from windlass.operations import pool_simulation, pools
from windlass.operations.caller import Scope
from windlass.operations.pool_simulation import PoolSimulation, Trial
from windlass.operations.pools import PoolView
from windlass.simulation.policies import NAMES
from windlass.simulation.run import SimulationResult

pages = Pages()

PERIODS = ("5m", "15m", "30m", "1h")
MOST_KEPT = 20
LEDGER = 12
SECOND: Micros = 1_000_000
Text = Annotated[str, Meta(max_length=128)]


class LabForm(Struct, frozen=True, kw_only=True):
    """What to replay, and with what. An empty field is as the pool has it."""

    pool: Text = ""
    since: Text = "1h"
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
    ended_at: Micros
    """The end of the replayed time."""

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
        wait=form.wait.strip() or None,
        min=read_number("min", form.min),
        max=read_number("max", form.max),
    )
    simulation = pool_simulation.compare(visit.access, form.pool, [Trial(), trial], since=form.since)
    id = _kept.add(Replay(simulation=simulation, ended_at=visit.now))
    params: Mapping[str, Any] = {**asdict(form), "run": id}
    return Goto(path="lab", params=params)


def _measure(name: str, now: float, other: float, form: str) -> Measure:
    words = form.format(now), form.format(other)
    verdict = "the same" if words[0] == words[1] else "better" if other < now else "worse"
    return Measure(name=name, now=words[0], other=words[1], verdict=verdict)


def draw_charts(visit: Visit, run: Replay) -> Markup:
    """Draw workers and waits of both runs, second by second."""
    now, other = run.now.timeline, run.other.timeline
    seconds = max(1, len(now.ready))
    start = run.ended_at - seconds * SECOND

    def line(label: str, look: str, values: Sequence[float], *, steps: bool = True, unit: str = "") -> Line:
        points = [(start + second * SECOND, float(value)) for second, value in enumerate(values)]
        return Line(label=label, look=look, points=points, steps=steps, unit=unit)

    sizes = TimeChart(
        title="Workers, second by second",
        start=start,
        end=run.ended_at,
        layers=[line("as it is", "before", now.ready), line("trial", "after", other.ready)],
        zone=visit.times.zone,
        whole=True,
        height=200,
    )
    waits = TimeChart(
        title="Longest wait, second by second",
        start=start,
        end=run.ended_at,
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
