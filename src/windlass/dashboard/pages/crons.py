"""The page Cron: will it run tonight, in which zone, and what the clocks do to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from windlass.core.payload import json_object
from windlass.core.schedule import MISFIRES, explain, find_times, parse
from windlass.core.task import Task
from windlass.core.times import Micros, micros, to_datetime, to_instant
from windlass.dashboard.forms import Named, read_moment, read_number, read_object
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.elements import Markup, element
from windlass.dashboard.visit import Visit
from windlass.operations import crons, manifest
from windlass.operations.caller import Scope
from windlass.operations.clock_changes import ClockChange, find_clock_changes
from windlass.operations.crons import CronView, NewCron
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
    can_create: bool
    handlers: list[str]
    misfires: tuple[str, ...] = MISFIRES


class CronForm(Named, frozen=True, kw_only=True):
    """A cron to create or change. Empty fields are those of the handler."""

    handler: str
    schedule: str
    args: str = ""
    timezone: str = ""
    misfire: str = "last"
    queue: str = ""
    tenant: str = ""
    priority: str = ""
    start: str = ""
    end: str = ""


@pages.show("/cron", "cron.html", title="Cron", nav=Nav("Cron", "c"))
def show_crons(visit: Visit) -> CronPage:
    """Show all crons with their next and last runs."""
    found = crons.get_all(visit.access)
    last = crons.find_last_runs(visit.access, found)
    now = to_datetime(visit.now)
    quarters = [(now + DAY * part / 4).astimezone(visit.times.zone) for part in range(5)]
    return CronPage(
        rows=[_row(visit, view, last.get(view.state.info.name)) for view in found],
        hours=[f"{moment:%H:%M}" for moment in quarters],
        can_create=visit.can_operate and visit.may(Scope.SUBMIT),
        handlers=sorted(handler.name for handler in manifest.handlers(visit.access)),
    )


@pages.act("/cron/create")
def create(visit: Visit, form: CronForm) -> Goto:
    """Create a cron at run time."""
    crons.create(visit.access, NewCron(name=form.name.strip(), **_read(visit, form)), visit.author(form.why))
    return Goto(path="cron", text=f"Cron {form.name} is created.")


@pages.act("/cron/change")
def change(visit: Visit, form: CronForm) -> Goto:
    """Change a cron that was created at run time."""
    before, given = crons.get(visit.access, form.name).state.info, _read(visit, form)
    if given["args"] == json_object(before.args):
        del given["args"]  # The audit entry names what was changed.
    crons.change(visit.access, form.name, given, visit.author(form.why))
    return Goto(path="cron", text=f"Cron {form.name} is changed.")


@pages.act("/cron/run")
def run(visit: Visit, form: Named) -> Goto:
    """Submit the task of a cron now."""
    receipt = crons.run(visit.access, form.name, visit.author(form.why))
    return Goto(
        path=f"tasks/{receipt.id}", text=f"Submitted the task of cron {form.name}. Its schedule stays as it is."
    )


@pages.act("/cron/pause")
def pause(visit: Visit, form: Named) -> Goto:
    """Pause a cron."""
    crons.pause(visit.access, form.name, visit.author(form.why))
    return Goto(path="cron", text=f"Cron {form.name} is paused until it is resumed.")


@pages.act("/cron/resume")
def resume(visit: Visit, form: Named) -> Goto:
    """Resume a cron."""
    found = crons.resume(visit.access, form.name, visit.author(form.why))
    misfire = found.state.info.misfire
    return Goto(path="cron", text=f"Cron {form.name} is resumed. Misfire policy for missed runs: {misfire}.")


@pages.act("/cron/remove")
def remove(visit: Visit, form: Named) -> Goto:
    """Remove a cron."""
    found = crons.remove(visit.access, form.name, visit.author(form.why))
    again = " A node whose app still has it publishes it again when it starts." if found.in_code else ""
    return Goto(path="cron", text=f"Cron {form.name} is removed.{again}")


def _read(visit: Visit, form: CronForm) -> dict[str, Any]:
    return {
        "handler": form.handler.strip(),
        "schedule": form.schedule.strip(),
        "args": read_object("args", form.args),
        "timezone": form.timezone.strip() or "UTC",
        "misfire": form.misfire,
        "queue": form.queue.strip() or None,
        "tenant": form.tenant.strip() or None,
        "priority": read_number("priority", form.priority),
        "start": read_moment("start", form.start, visit.times.zone),
        "end": read_moment("end", form.end, visit.times.zone),
    }


def _row(visit: Visit, view: CronView, last: Task | None) -> CronRow:
    info = view.state.info
    zone, day = ZoneInfo(info.timezone), micros(DAY)
    soon = list(takewhile(lambda at: at < visit.now + day, islice(find_times(info, visit.now), MOST_TICKS + 1)))
    following = [to_datetime(at).astimezone(zone) for at in islice(find_times(info, visit.now), SHOWN)]
    took = None if last is None or last.finished is None or last.claimed is None else last.finished - last.claimed
    return CronRow(
        view=view,
        words=explain(info.schedule),
        next=[_next_run(moment, visit.times.zone) for moment in following],
        day=draw_day([(at - visit.now) / day for at in soon]),
        last=last,
        took=took,
        # Scheduled times are whole seconds; the time at which it was published or created is not.
        has_run=view.state.fired is not None and view.state.fired % Resolution.SECOND == 0,
        warnings=_find_warnings(info.schedule, info.timezone, to_datetime(visit.now).astimezone(zone).date()),
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


@lru_cache(maxsize=1_000)
def _find_warnings(schedule: str, zone: str, day: date) -> list[ClockChange]:
    """Return what the clocks do to a cron within a year. Cached, because it looks at every day."""
    expression = parse(schedule)
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return find_clock_changes(expression, ZoneInfo(zone), start, 1) if isinstance(expression, str) else []
