"""The JSON shapes of circuit breakers."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.breaker import BreakerState
from windlass.core.times import to_datetime
from windlass.operations.breakers import BreakerView
from windlass.wire.fields import Length, Moment, Reason, as_datetime


class BreakerShape(Struct, frozen=True, kw_only=True):
    """The circuit breaker of a downstream."""

    name: str
    state: BreakerState
    since: Moment
    until: Moment | None
    attempts: int
    """Attempts that ended recently."""
    errors: int
    held_by: str
    """Who holds it in this state, whatever its tasks do; empty if nobody does."""
    sentence: str


class HoldOpen(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start no tasks of a downstream."""

    lasts: Length | None = None
    """null: until it is closed."""
    create: bool = False
    """Accept a downstream that no handler names and that has no breaker."""


class Close(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start tasks of a downstream again."""

    hold: bool = False
    """Keep it closed whatever its tasks do, for `lasts` or until it is closed again."""
    lasts: Length | None = None
    create: bool = False
    """Accept a downstream that no handler names and that has no breaker; only with `hold` or `lasts`."""


def breaker_shape(view: BreakerView) -> BreakerShape:
    """Convert a breaker."""
    breaker = view.breaker
    return BreakerShape(
        name=view.name,
        state=breaker.state,
        since=to_datetime(breaker.since),
        until=as_datetime(breaker.until),
        attempts=breaker.attempts,
        errors=breaker.errors,
        held_by=breaker.forced_by,
        sentence=view.sentence,
    )
