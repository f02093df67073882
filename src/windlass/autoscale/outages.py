"""What a circuit breaker does to a pool's size: hold, then little, a probe, and at the end all of it again.

An open breaker stops the work of its downstream, so its pool idles. For a moment the size is held, since most outages
are short; then it goes towards the floor. Half-open needs somebody to probe with. When it closes, the queue of the
outage is served by the size that was there before, at once.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.load_overrides import Step, Recommendation, hold_at, make_step, raise_to
from windlass.autoscale.moment import Moment

HELD = 30.0
"""Seconds for which an open breaker leaves the size as it is, and a closed one keeps asking for the old size."""


class Outage(Struct, frozen=True, kw_only=True, gc=False):
    """A breaker that is open, or has just closed."""

    since: float | None = None
    closed: float | None = None
    size: int = 0
    """The size that the outage found."""


def apply_breaker_veto(moment: Moment, wish: Recommendation, outage: Outage) -> tuple[Recommendation, list[Step], Outage]:
    """The wish under the breaker's state, what that says, and what to remember."""
    state, now, floor = moment.observed.breaker, moment.now, moment.settings.floor
    if state == "closed":
        return restore_size(moment, wish, outage)
    if outage.since is None:
        outage = Outage(since=now, size=max(moment.current, outage.size))
    word = "veto:breaker"
    if state == "half_open":
        wish = plain(floor + 1)
        return wish, [make_step(wish, moment.current, word, "veto: the breaker is half open, one to probe with")], outage
    if now - (outage.since or 0.0) < HELD:
        wish = hold_at(wish, moment.current)
        return wish, [make_step(wish, moment.current, word, "veto: the breaker is open, the size is held")], outage
    wish = plain(floor)
    return wish, [make_step(wish, moment.current, word, "veto: the breaker is open, down to the floor")], outage


def plain(size: int) -> Recommendation:
    """A wish for exactly that many."""
    return Recommendation(must=size, want=size, keep=size, peak=size)


def restore_size(moment: Moment, wish: Recommendation, outage: Outage) -> tuple[Recommendation, list[Step], Outage]:
    """The wish after an outage: what it found, for long enough that the load can speak for itself."""
    if outage.since is not None:
        outage = replace(outage, since=None, closed=moment.now)
    if outage.closed is None or moment.now - outage.closed >= HELD:
        return wish, [], Outage()
    wish = raise_to(wish, outage.size)
    said = f"the breaker has closed, back to {outage.size}"
    return wish, [make_step(wish, moment.current, "restored", said)], outage
