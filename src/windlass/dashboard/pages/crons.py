"""The page Cron: will it run tonight, in which zone, and what the clocks do to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim
from msgspec import Struct

from windlass.core.task import Task
from windlass.core.times import Micros, to_datetime, to_instant
from windlass.dashboard.forms import Named
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.elements import Markup, element
from windlass.dashboard.visit import Visit
from windlass.operations import crons
from windlass.operations.clock_changes import ClockChange, find_clock_changes
from windlass.operations.crons import CronView
from windlass.stores.series import Resolution

SHOWN = 5
"""How many of the next runs the page lists."""
DAY = timedelta(days=1)
MOST_TICKS = 150
"""Beyond this many runs a day, a line stands for the single runs."""

pages = Pages()


class NextRun(Struct, frozen=True, kw_only=True):
    """A run of a cron."""

    at: Micros
    there: str
    """The time in the cron's own zone; empty if it is the same as the visitor's."""


class CronRow(Struct, frozen=True, kw_only=True):
    """A cron in the list."""

    view: CronView
    words: str
    """The schedule in words."""
    next: list[NextRun]
    """Also while it is paused."""
    day: Markup
    """When it runs in the next 24 hours, as a drawing."""
    last: Task | None
    """The task of the latest scheduled run."""
    took: Micros | None
    has_run: bool
    """False if it only has the time at which it was published, which is not on its schedule."""
    warnings: list[ClockChange]


class CronPage(Struct, frozen=True, kw_only=True):
    """All crons."""

    rows: list[CronRow]
    hours: list[str]
    """The hours at the quarters of the next 24 hours, in the visitor's zone."""


@pages.show("/cron", "cron.html", title="Cron", nav=Nav("Cron", "c"), unrestricted=True)
def show_crons(visit: Visit) -> CronPage:
    """Show all crons with their next and last runs."""
    found = crons.get_all(visit.access)
    last = crons.find_last_runs(visit.access, found)
    now = to_datetime(visit.now)
    quarters = [(now + DAY * part / 4).astimezone(visit.times.zone) for part in range(5)]
    return CronPage(
        rows=[_row(visit, view, now, last.get(view.state.info.name)) for view in found],
        hours=[f"{moment:%H:%M}" for moment in quarters],
    )


@pages.act("/cron/run", unrestricted=True)
def run(visit: Visit, form: Named) -> Goto:
    """Submit the task of a cron now."""
    receipt = crons.run(visit.access, form.name, visit.author(form.why))
    return Goto(
        path=f"tasks/{receipt.id}", text=f"Submitted the task of cron {form.name}. Its schedule stays as it is."
    )


@pages.act("/cron/pause", unrestricted=True)
def pause(visit: Visit, form: Named) -> Goto:
    """Pause a cron."""
    crons.pause(visit.access, form.name, visit.author(form.why))
    return Goto(path="cron", text=f"Cron {form.name} is paused until it is resumed.")


@pages.act("/cron/resume", unrestricted=True)
def resume(visit: Visit, form: Named) -> Goto:
    """Resume a cron."""
    found = crons.resume(visit.access, form.name, visit.author(form.why))
    misfire = found.state.info.misfire
    return Goto(path="cron", text=f"Cron {form.name} is resumed. Misfire policy for missed runs: {misfire}.")


@pages.act("/cron/remove", unrestricted=True)
def remove(visit: Visit, form: Named) -> Goto:
    """Remove a cron."""
    found = crons.remove(visit.access, form.name, visit.author(form.why))
    again = " A node whose app still has it publishes it again when it starts." if found.in_code else ""
    return Goto(path="cron", text=f"Cron {form.name} is removed.{again}")


def _row(visit: Visit, view: CronView, now: datetime, last: Task | None) -> CronRow:
    info = view.state.info
    here = now.astimezone(ZoneInfo(info.timezone))
    soon = list(takewhile(lambda moment: moment < now + DAY, _first_runs(info.schedule, here, MOST_TICKS + 1)))
    took = None if last is None or last.finished is None or last.claimed is None else last.finished - last.claimed
    return CronRow(
        view=view,
        words=CronSim(info.schedule, here).explain(),
        next=[_next_run(moment, visit.times.zone) for moment in _first_runs(info.schedule, here, SHOWN)],
        day=draw_day([(moment - now) / DAY for moment in soon]),
        last=last,
        took=took,
        has_run=view.state.fired is not None and view.state.fired % Resolution.MINUTE == 0,
        warnings=_find_warnings(info.schedule, info.timezone, here.date()),
    )


def _next_run(moment: datetime, zone: tzinfo | None) -> NextRun:
    is_same = moment.utcoffset() == moment.astimezone(zone).utcoffset()
    return NextRun(at=to_instant(moment), there="" if is_same else _format_there(moment))


def _format_there(moment: datetime) -> str:
    offset = f"{moment:%z}"
    return f"{moment:%a %H:%M} {offset[:3]}:{offset[3:5]}"


def draw_day(shares: Sequence[float]) -> Markup:
    """Draw runs on a line, each from 0 to 1. Very many become one bar."""
    many = len(shares) > MOST_TICKS
    words = f"more than {MOST_TICKS} runs" if many else f"{len(shares)} run{'s' * (len(shares) != 1)}"
    ticks = [element("rect", class_="day-run", x=f"{share:.2%}", y=2, width=2, height=10) for share in shares]
    bar = element("rect", class_="day-run", x=0, y=5, width="100%", height=4)
    line = element("rect", class_="day-line", x=0, y=6.5, width="100%", height=1)
    title = element("title", f"{words} in the next 24 hours")
    return element(
        "svg", title, line, *([bar] if many else ticks), class_="day-svg", height=14, width="100%", role="img"
    )


def _first_runs(schedule: str, after: datetime, number: int) -> list[datetime]:
    runs = CronSim(schedule, after)
    return [moment for _, moment in zip(range(number), runs, strict=False)]


@lru_cache(maxsize=1_000)
def _find_warnings(schedule: str, zone: str, day: date) -> list[ClockChange]:
    """Return what the clocks do to a cron within a year. Cached, because it looks at every day."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return find_clock_changes(schedule, ZoneInfo(zone), start, 1)
