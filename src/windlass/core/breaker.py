"""A circuit breaker: what keeps the tasks of a failing downstream from hammering it. Pure.

Closed lets all through, open lets none, half-open lets a few probes through and learns from them. The nodes share one
breaker for each downstream: they read it, put what they heard into it, and write it back only if nobody else did in
between. So that this also bounds the probes of all nodes together, a probe is taken in the breaker before it is
claimed. Which failures count is the callers' to say: a bad address is not the downstream's fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.times import Micros, micros, to_datetime

PROBES = 3
"""How many attempts may be under way in all nodes together while a breaker is half-open."""


class BreakerState(StrEnum):
    """What a breaker lets through."""

    CLOSED = "closed"
    """Everything."""
    OPEN = "open"
    """Nothing, until its time is over."""
    HALF_OPEN = "half_open"
    """A few probes."""


class BreakerSettings(Struct, frozen=True, kw_only=True):
    """When a breaker opens, for how long, and what closes it again."""

    window: timedelta = timedelta(seconds=30)
    least: int = 20
    """Fewer attempts than this within the window say nothing about the share of failures."""
    share: float = 0.5
    """It opens when more than this share of them failed."""
    row: int = 10
    """It opens, too, after so many failures without a success between them, however long they took."""
    first: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(minutes=10)
    """It is open for `first`, then twice as long each time that its probes fail, up to `longest`."""
    probes: int = PROBES
    good: int = 5
    good_share: float = 0.8
    """So many good probes close it, if they are at least this share of all."""
    bad: int = 2
    """So many bad probes open it again."""


DEFAULTS = BreakerSettings()


class Slice(Struct, frozen=True, array_like=True):
    """What ended in a tenth of the window."""

    start: Micros
    attempts: int
    errors: int


class Breaker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one downstream: small enough to be stored, as JSON, at every change."""

    state: BreakerState = BreakerState.CLOSED
    since: Micros = 0
    until: Micros | None = None
    """When an open breaker becomes half-open, or an operator's word runs out."""
    window: tuple[Slice, ...] = ()
    row: int = 0
    """Failures since the last success."""
    probing: Mapping[str, int] = {}
    """Probes under way, by who runs them."""
    good: int = 0
    bad: int = 0
    """How the probes of this half-open time ended."""
    opened: int = 0
    """How often it has opened since it was last closed."""
    reason: str = ""
    forced_by: str = ""
    """Who holds it in this state; while somebody does, what is heard changes nothing."""

    @property
    def attempts(self) -> int:
        """How many attempts ended within the window, when it was last heard of."""
        return sum(each.attempts for each in self.window)

    @property
    def errors(self) -> int:
        """How many of them failed."""
        return sum(each.errors for each in self.window)

    @property
    def under_way(self) -> int:
        """How many probes run in all nodes."""
        return sum(self.probing.values())


def decode(text: str) -> Breaker:
    """A stored breaker; what cannot be read counts as closed, because a breaker must not stop what it cannot judge."""
    try:
        return msgspec.json.decode(text, type=Breaker)
    except msgspec.DecodeError:
        return Breaker()


def encode(breaker: Breaker) -> str:
    """The text that is stored."""
    return msgspec.json.encode(breaker).decode()


def advance(breaker: Breaker, now: Micros) -> Breaker:
    """The breaker as the passing of time alone has left it."""
    if breaker.until is None or now < breaker.until:
        return breaker
    if breaker.state is BreakerState.OPEN:
        return _half_open(breaker, breaker.until)
    return _closed(breaker, breaker.until, "the operator's word ran out")


def record(
    breaker: Breaker,
    now: Micros,
    *,
    attempts: int = 0,
    errors: int = 0,
    probes: int = 0,
    probe_errors: int = 0,
    by: str = "",
    error: str = "",
    settings: BreakerSettings = DEFAULTS,
) -> Breaker:
    """The breaker after some attempts ended.

    `probes` are those that `by` took with `take`, `attempts` the others, `error` the words of a failure. While the
    breaker is not closed only probes count: other attempts began before it opened, and tell what is known.
    """
    assert 0 <= errors <= attempts, f"{errors} errors of {attempts} attempts"
    assert 0 <= probe_errors <= probes, f"{probe_errors} errors of {probes} probes"
    breaker = _ended(advance(breaker, now), by, probes)
    now = max(now, breaker.since)  # Nodes may hear out of order.
    if breaker.forced_by or breaker.state is BreakerState.OPEN:
        return breaker
    if attempts + probes == 0:
        return breaker
    if breaker.state is BreakerState.HALF_OPEN:
        return _probed(breaker, now, probes - probe_errors, probe_errors, error, settings)
    return _counted(breaker, now, attempts + probes, errors + probe_errors, error, settings)


def permits(
    breaker: Breaker,
    now: Micros,
    in_flight: int | None = None,
    settings: BreakerSettings = DEFAULTS,
) -> int | None:
    """How many more attempts may begin: None for any number, 0 for none.

    `in_flight` is how many run in all nodes; left out, it is what the breaker itself knows.
    """
    breaker = advance(breaker, now)
    if breaker.state is BreakerState.CLOSED:
        return None
    if breaker.state is BreakerState.OPEN:
        return 0
    return max(0, settings.probes - (breaker.under_way if in_flight is None else in_flight))


def take_probes(
    breaker: Breaker,
    now: Micros,
    by: str,
    want: int,
    settings: BreakerSettings = DEFAULTS,
) -> tuple[Breaker, int]:
    """Take up to `want` probes for the node `by`, and say how many it got; none unless the breaker is half-open.

    They hold only once the breaker is written. What was not used goes back with `give_back`.
    """
    breaker = advance(breaker, now)
    got = min(want, permits(breaker, now, settings=settings) or 0)
    if got <= 0:
        return breaker, 0
    return replace(breaker, probing={**breaker.probing, by: breaker.probing.get(by, 0) + got}), got


def return_probes(breaker: Breaker, by: str, probes: int) -> Breaker:
    """Probes that were taken and never ran: they tell nothing."""
    return _ended(breaker, by, probes)


def drop_dead_probes(breaker: Breaker, alive: Collection[str]) -> Breaker:
    """Free the probes of nodes that are gone: nobody will say how they ended."""
    probing = {by: count for by, count in breaker.probing.items() if by in alive}
    return breaker if len(probing) == len(breaker.probing) else replace(breaker, probing=probing)


def force(
    breaker: Breaker, now: Micros, state: BreakerState, *, by: str, why: str = "", until: Micros | None = None
) -> Breaker:
    """Hold it open or closed for an operator, until then or until it is lifted.

    When an open one's time is over it becomes half-open: probes decide, not the clock.
    """
    assert by, "somebody must answer for it"
    assert state is not BreakerState.HALF_OPEN, "an operator opens or closes"
    opened = breaker.opened if state is BreakerState.OPEN else 0
    return Breaker(
        state=state, since=now, until=until, reason=why, forced_by=by, opened=opened, probing=breaker.probing
    )


def lift(breaker: Breaker, now: Micros) -> Breaker:
    """End an operator's word: from open to half-open, from closed to closed with nothing counted yet."""
    if not breaker.forced_by:
        return breaker
    if breaker.state is BreakerState.OPEN:
        return _half_open(breaker, now)
    return _closed(breaker, now, f"no longer held by {breaker.forced_by}")


def reset(breaker: Breaker, now: Micros, *, by: str) -> Breaker:
    """Close it now, with nothing counted yet; it opens again by the usual rule."""
    return _closed(breaker, now, f"closed by {by}")


def sentence(name: str, breaker: Breaker, now: Micros) -> str:
    """How things stand, for people."""
    breaker = advance(breaker, now)
    if breaker.forced_by:
        until = "somebody lifts it" if breaker.until is None else _clock(breaker.until)
        said = f': "{breaker.reason}"' if breaker.reason else ""
        return (
            f"{name} is held {breaker.state} by {breaker.forced_by} since {_clock(breaker.since)} until {until}{said}"
        )
    if breaker.state is BreakerState.CLOSED:
        return f"{name} is closed: {breaker.errors} of the latest {breaker.attempts} attempts failed"
    if breaker.state is BreakerState.OPEN:
        until = _clock(breaker.until or now)
        return f"{name} is open since {_clock(breaker.since)} until {until}: {breaker.reason}"
    return (
        f"{name} is half-open since {_clock(breaker.since)}: of its probes {breaker.good} were good and {breaker.bad} "
        f"bad, {breaker.under_way} under way; it opened because {breaker.reason or 'somebody held it open'}"
    )


def _counted(
    breaker: Breaker, now: Micros, attempts: int, errors: int, error: str, settings: BreakerSettings
) -> Breaker:
    """A closed breaker with these attempts added, opened if they are one too many."""
    row = breaker.row + errors if errors == attempts else 0  # Their order is not known, so one success clears it.
    breaker = replace(breaker, row=row, window=_window(breaker.window, now, attempts, errors, settings))
    if row >= settings.row:
        return _opened(breaker, now, f"{row} attempts in a row failed", error, settings)
    if breaker.attempts >= settings.least and breaker.errors > settings.share * breaker.attempts:
        within = f"{settings.window.total_seconds():g} s"
        said = f"{breaker.errors} of {breaker.attempts} attempts within {within} failed"
        return _opened(breaker, now, said, error, settings)
    return breaker


def _probed(breaker: Breaker, now: Micros, good: int, bad: int, error: str, settings: BreakerSettings) -> Breaker:
    """A half-open breaker with these probes added, opened or closed if they decide it."""
    breaker = replace(breaker, good=breaker.good + good, bad=breaker.bad + bad)
    probes = breaker.good + breaker.bad
    if breaker.bad >= settings.bad:
        return _opened(breaker, now, f"{breaker.bad} of {probes} probes failed", error, settings)
    if breaker.good >= settings.good and breaker.good >= settings.good_share * probes:
        return _closed(breaker, now, f"{breaker.good} of {probes} probes were good")
    return breaker


def _opened(breaker: Breaker, now: Micros, said: str, error: str, settings: BreakerSettings) -> Breaker:
    opened = breaker.opened + 1
    # The exponent is bounded so that a downstream that is away for a year does not build a huge number.
    span = min(micros(settings.longest), micros(settings.first) * 2 ** min(opened - 1, 40))
    reason = f"{said}, lately with {error}" if error else said
    return Breaker(
        state=BreakerState.OPEN, since=now, until=now + span, opened=opened, reason=reason, probing=breaker.probing
    )


def _closed(breaker: Breaker, now: Micros, reason: str) -> Breaker:
    return Breaker(since=now, reason=reason, probing=breaker.probing)


def _half_open(breaker: Breaker, now: Micros) -> Breaker:
    return Breaker(
        state=BreakerState.HALF_OPEN,
        since=now,
        opened=breaker.opened,
        reason=breaker.reason,
        probing=breaker.probing,
    )


def _ended(breaker: Breaker, by: str, probes: int) -> Breaker:
    left = max(0, breaker.probing.get(by, 0) - probes)
    probing = {**breaker.probing, by: left}
    return breaker if probes == 0 else replace(breaker, probing={by: n for by, n in probing.items() if n})


def _window(
    window: tuple[Slice, ...], now: Micros, attempts: int, errors: int, settings: BreakerSettings
) -> tuple[Slice, ...]:
    """The slices that lie within the window, these attempts added to the last one."""
    size = micros(settings.window) // 10 or 1
    start = max(now - now % size, window[-1].start if window else 0)
    last = window[-1] if window and window[-1].start == start else Slice(start, 0, 0)
    kept = (each for each in window if now - micros(settings.window) < each.start < start)
    return (*kept, Slice(start, last.attempts + attempts, last.errors + errors))


def _clock(instant: Micros) -> str:
    return f"{to_datetime(instant):%H:%M:%S} UTC"
