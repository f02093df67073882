"""Circuit breakers: stop tasks from overloading a downstream that fails.

A closed breaker lets every attempt start, an open one none, and a half-open one a few probes that decide what happens
next. All nodes share one breaker per downstream. They read it, add the attempts that ended, and write it back with
compare-and-set. A probe is reserved in the breaker before its task is claimed, which bounds the probes of all nodes
together. Callers decide which failures count: a bad address is not the downstream's fault.
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
"""The number of probes that may run at the same time on all nodes together."""


class BreakerState(StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"
    """Every attempt may start."""
    OPEN = "open"
    """No attempt may start until its time is over."""
    HALF_OPEN = "half_open"
    """A few probes may run."""


class BreakerSettings(Struct, frozen=True, kw_only=True):
    """When a breaker opens, for how long, and when it closes again."""

    window: timedelta = timedelta(seconds=30)
    least: int = 20
    """The share of failures counts only with at least this many attempts in the window."""
    share: float = 0.5
    """The breaker opens when more than this share of the attempts failed."""
    row: int = 10
    """The breaker also opens after this many failures in a row, however long they took."""
    first: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(minutes=10)
    """How long the breaker stays open: `first`, then twice as long each time its probes fail, up to `longest`."""
    probes: int = PROBES
    good: int = 5
    good_share: float = 0.8
    """The breaker closes after `good` successful probes, if they are at least this share of all probes."""
    bad: int = 2
    """The breaker opens again after this many failed probes."""


DEFAULTS = BreakerSettings()


class Slice(Struct, frozen=True, array_like=True):
    """The attempts that ended in a tenth of the window."""

    start: Micros
    attempts: int
    errors: int


class Breaker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The breaker of one downstream, small enough to be stored as JSON at every change."""

    state: BreakerState = BreakerState.CLOSED
    since: Micros = 0
    until: Micros | None = None
    """When an open breaker becomes half-open, or an operator's override ends."""
    window: tuple[Slice, ...] = ()
    row: int = 0
    """The number of failures since the last success."""
    probing: Mapping[str, int] = {}
    """The number of running probes, by node."""
    good: int = 0
    bad: int = 0
    """The number of successful and of failed probes since the breaker became half-open."""
    opened: int = 0
    """How often it has opened since it was last closed."""
    reason: str = ""
    forced_by: str = ""
    """The operator who holds it in this state. While it is held, attempts do not change it."""

    @property
    def attempts(self) -> int:
        """The number of attempts in the window, as of the last record."""
        return sum(each.attempts for each in self.window)

    @property
    def errors(self) -> int:
        """The number of failed attempts in the window, as of the last record."""
        return sum(each.errors for each in self.window)

    @property
    def under_way(self) -> int:
        """The number of probes running on all nodes."""
        return sum(self.probing.values())


def decode(text: str) -> Breaker:
    """Decode a stored breaker. Text that cannot be decoded counts as closed, so that it stops nothing."""
    try:
        return msgspec.json.decode(text, type=Breaker)
    except msgspec.DecodeError:
        return Breaker()


def encode(breaker: Breaker) -> str:
    """Encode a breaker for storage."""
    return msgspec.json.encode(breaker).decode()


def advance(breaker: Breaker, now: Micros) -> Breaker:
    """Return the breaker as of `now`: an open one may have become half-open, an override may have ended."""
    if breaker.until is None or now < breaker.until:
        return breaker
    if breaker.state is BreakerState.OPEN:
        return _open_half(breaker, breaker.until)
    return _close(breaker, breaker.until, "the operator's override ended")


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
    """Return the breaker after some attempts ended.

    `probes` are those that `by` took with `take_probes`, `attempts` are all others, `error` is the text of a failure.
    While the breaker is not closed, only probes count: other attempts started before it opened.
    """
    assert 0 <= errors <= attempts, f"{errors} errors of {attempts} attempts"
    assert 0 <= probe_errors <= probes, f"{probe_errors} errors of {probes} probes"
    breaker = _ended(advance(breaker, now), by, probes)
    now = max(now, breaker.since)  # Nodes may record out of order.
    if breaker.forced_by or breaker.state is BreakerState.OPEN:
        return breaker
    if attempts + probes == 0:
        return breaker
    if breaker.state is BreakerState.HALF_OPEN:
        return _add_probes(breaker, now, probes - probe_errors, probe_errors, error, settings)
    return _add_attempts(breaker, now, attempts + probes, errors + probe_errors, error, settings)


def attempts_allowed(breaker: Breaker, now: Micros, settings: BreakerSettings = DEFAULTS) -> int | None:
    """Return how many more attempts may start: None for any number, 0 for none."""
    breaker = advance(breaker, now)
    if breaker.state is BreakerState.CLOSED:
        return None
    if breaker.state is BreakerState.OPEN:
        return 0
    return max(0, settings.probes - breaker.under_way)


def take_probes(
    breaker: Breaker,
    now: Micros,
    by: str,
    want: int,
    settings: BreakerSettings = DEFAULTS,
) -> tuple[Breaker, int]:
    """Reserve up to `want` probes for the node `by`. Return the breaker and how many it got: 0 unless half-open.

    The reservation takes effect when the breaker is written. Unused probes are returned with `return_probes`.
    """
    breaker = advance(breaker, now)
    got = min(want, attempts_allowed(breaker, now, settings) or 0)
    if got <= 0:
        return breaker, 0
    return replace(breaker, probing={**breaker.probing, by: breaker.probing.get(by, 0) + got}), got


def return_probes(breaker: Breaker, by: str, probes: int) -> Breaker:
    """Return probes that were reserved and did not run."""
    return _ended(breaker, by, probes)


def drop_dead_probes(breaker: Breaker, alive: Collection[str]) -> Breaker:
    """Free the probes of nodes that are gone: nobody will report how they ended."""
    probing = {by: count for by, count in breaker.probing.items() if by in alive}
    return breaker if len(probing) == len(breaker.probing) else replace(breaker, probing=probing)


def force(
    breaker: Breaker, now: Micros, state: BreakerState, *, by: str, why: str = "", until: Micros | None = None
) -> Breaker:
    """Hold the breaker open or closed for an operator, until a time or until `reset`.

    When the time of an open breaker is over, it becomes half-open, and probes decide.
    """
    assert by, "an override needs an author"
    assert state is not BreakerState.HALF_OPEN, "an operator opens or closes"
    opened = breaker.opened if state is BreakerState.OPEN else 0
    return Breaker(
        state=state, since=now, until=until, reason=why, forced_by=by, opened=opened, probing=breaker.probing
    )


def reset(breaker: Breaker, now: Micros, *, by: str) -> Breaker:
    """Close the breaker and clear its counts. It may open again by the usual rules."""
    return _close(breaker, now, f"closed by {by}")


def sentence(name: str, breaker: Breaker, now: Micros) -> str:
    """Return the state of a breaker as a sentence."""
    breaker = advance(breaker, now)
    if breaker.forced_by:
        until = "it is closed by hand" if breaker.until is None else _clock(breaker.until)
        why = f': "{breaker.reason}"' if breaker.reason else ""
        return f"{name} is held {breaker.state} by {breaker.forced_by} since {_clock(breaker.since)} until {until}{why}"
    if breaker.state is BreakerState.CLOSED:
        return f"{name} is closed: {breaker.errors} of the last {breaker.attempts} attempts failed"
    if breaker.state is BreakerState.OPEN:
        until = _clock(breaker.until or now)
        return f"{name} is open since {_clock(breaker.since)} until {until}: {breaker.reason}"
    return (
        f"{name} is half-open since {_clock(breaker.since)}: {breaker.good} probes succeeded, {breaker.bad} failed, "
        f"{breaker.under_way} are running; it opened because {breaker.reason or 'an operator held it open'}"
    )


def _add_attempts(
    breaker: Breaker, now: Micros, attempts: int, errors: int, error: str, settings: BreakerSettings
) -> Breaker:
    """Add attempts to a closed breaker, and open it if too many have failed."""
    row = breaker.row + errors if errors == attempts else 0  # Their order is not known: one success resets the row.
    breaker = replace(breaker, row=row, window=_window(breaker.window, now, attempts, errors, settings))
    if row >= settings.row:
        return _open(breaker, now, f"{row} attempts in a row failed", error, settings)
    if breaker.attempts >= settings.least and breaker.errors > settings.share * breaker.attempts:
        within = f"{settings.window.total_seconds():g} s"
        cause = f"{breaker.errors} of {breaker.attempts} attempts within {within} failed"
        return _open(breaker, now, cause, error, settings)
    return breaker


def _add_probes(breaker: Breaker, now: Micros, good: int, bad: int, error: str, settings: BreakerSettings) -> Breaker:
    """Add probes to a half-open breaker, and open or close it if they decide that."""
    breaker = replace(breaker, good=breaker.good + good, bad=breaker.bad + bad)
    probes = breaker.good + breaker.bad
    if breaker.bad >= settings.bad:
        return _open(breaker, now, f"{breaker.bad} of {probes} probes failed", error, settings)
    if breaker.good >= settings.good and breaker.good >= settings.good_share * probes:
        return _close(breaker, now, f"{breaker.good} of {probes} probes succeeded")
    return breaker


def _open(breaker: Breaker, now: Micros, cause: str, error: str, settings: BreakerSettings) -> Breaker:
    opened = breaker.opened + 1
    # The exponent is bounded, so that a downstream that fails for a year does not build a huge number.
    span = min(micros(settings.longest), micros(settings.first) * 2 ** min(opened - 1, 40))
    reason = f"{cause}, most recently with {error}" if error else cause
    return Breaker(
        state=BreakerState.OPEN, since=now, until=now + span, opened=opened, reason=reason, probing=breaker.probing
    )


def _close(breaker: Breaker, now: Micros, reason: str) -> Breaker:
    return Breaker(since=now, reason=reason, probing=breaker.probing)


def _open_half(breaker: Breaker, now: Micros) -> Breaker:
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
    """Return the slices within the window, with these attempts added to the last one."""
    size = micros(settings.window) // 10 or 1
    start = max(now - now % size, window[-1].start if window else 0)
    last = window[-1] if window and window[-1].start == start else Slice(start, 0, 0)
    kept = (each for each in window if now - micros(settings.window) < each.start < start)
    return (*kept, Slice(start, last.attempts + attempts, last.errors + errors))


def _clock(instant: Micros) -> str:
    return f"{to_datetime(instant):%H:%M:%S} UTC"
