"""Downstreams on the page Queues: which ones fail, what waits for them, and the buttons of their breakers."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.breaker import DEFAULTS, Breaker, BreakerState
from windlass.core.filter import Condition, Op, Pattern, Query
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.dashboard.forms import Named, NamedLasting, go_back, read_duration
from windlass.dashboard.page import Goto, Pages
from windlass.dashboard.visit import Visit
from windlass.operations import breakers, facets, manifest
from windlass.operations.facets import Facets

MOST = 50
"""How many downstreams the page lists: first those that are not closed."""
PLACE = "queues"

pages = Pages()


class DownstreamRow(Struct, frozen=True, kw_only=True):
    """A downstream that handlers name or that has a breaker."""

    name: str
    breaker: Breaker
    handlers: list[str]
    held: Facets | None
    """How many runnable tasks wait for it; None if it is closed."""

    @property
    def query(self) -> str:
        """Return the filter that finds its tasks."""
        return str(_find_tasks(downstream=self.name))

    @property
    def held_query(self) -> str:
        """Return the filter that finds the tasks that wait for it."""
        return str(_find_tasks(state=State.RUNNABLE.value, downstream=self.name))

    @property
    def state(self) -> str:
        """Return the state of its breaker in words."""
        word = self.breaker.state.replace("_", "-")
        return f"held {word}" if self.breaker.forced_by else word

    @property
    def next(self) -> str:
        """Return what comes next, before the time in `until`, or without one."""
        breaker = self.breaker
        if breaker.forced_by:
            then = "probes start" if breaker.state is BreakerState.OPEN else "attempts decide again"
            return f"{then} at" if breaker.until is not None else "until a person closes it"
        if breaker.state is BreakerState.OPEN:
            return "next probe at"
        if breaker.state is BreakerState.HALF_OPEN:
            probes = f"{breaker.under_way} of {DEFAULTS.probes} probes run"
            return f"{probes}; {breaker.good} succeeded, {breaker.bad} failed"
        return f"{breaker.errors:,} of the last {breaker.attempts:,} attempts failed" if breaker.attempts else ""

    @property
    def until(self) -> Micros | None:
        """Return when it comes."""
        return self.breaker.until

    @property
    def can_close(self) -> bool:
        """Return True if closing it changes something."""
        return self.breaker.state is not BreakerState.CLOSED or bool(self.breaker.forced_by)


def list_downstreams(visit: Visit) -> list[DownstreamRow]:
    """Return the downstreams, those that stop tasks first. Callers with limits see none."""
    if visit.caller.limited:
        return []
    known = {view.name: view.breaker for view in breakers.get_all(visit.access)}
    users: dict[str, list[str]] = {name: [] for name in known}
    for handler in manifest.handlers(visit.access):
        downstream = handler.new_task_template().downstream
        if downstream is not None:
            users.setdefault(downstream, []).append(handler.name)
    found = sorted(users, key=lambda name: (not _stops(known.get(name)), name))[:MOST]
    return [
        DownstreamRow(
            name=name,
            breaker=known.get(name, Breaker()),
            handlers=sorted(users[name]),
            held=count_held(visit, name) if _stops(known.get(name)) else None,
        )
        for name in found
    ]


def count_held(visit: Visit, downstream: str) -> Facets:
    """Count the tasks that wait for a downstream, at bounded cost."""
    return facets.get_facets(visit.access, _find_tasks(state=State.RUNNABLE.value, downstream=downstream))


def _find_tasks(**fields: str) -> Query:
    return Query(tuple(Condition(field=name, op=Op.IS, values=(Pattern((text,)),)) for name, text in fields.items()))


def _stops(breaker: Breaker | None) -> bool:
    return breaker is not None and breaker.state is not BreakerState.CLOSED


@pages.act("/breakers/close", unrestricted=True)
def close(visit: Visit, form: Named) -> Goto:
    """Close a breaker now."""
    breakers.close(visit.access, form.name, author=visit.author(form.why))
    return go_back(form, PLACE, f"The breaker of {form.name} is closed. It opens again when enough attempts fail.")


@pages.act("/breakers/hold", unrestricted=True)
def hold(visit: Visit, form: NamedLasting) -> Goto:
    """Hold a breaker open: nothing starts that needs the downstream."""
    lasts = read_duration("for", form.lasts)
    breakers.hold(visit.access, form.name, BreakerState.OPEN, author=visit.author(form.why), lasts=lasts)
    return go_back(form, PLACE, f"The breaker of {form.name} is held open. Running tasks continue.")
