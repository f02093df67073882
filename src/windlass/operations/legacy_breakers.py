"""Downstreams and their circuit breakers as people see and overrule them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from windlass.core import breaker as rules
from windlass.core.breaker import Breaker, BreakerState
from windlass.core.names import check_author, check_name
from windlass.core.times import Duration, Micros, duration, micros
from windlass.errors import ChangedMeanwhile
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

KIND = "breaker"
TRIES = 5


class Downstream(Struct, frozen=True, kw_only=True):
    """One downstream whose tasks have failed lately, or that somebody holds open or closed."""

    name: str
    breaker: Breaker
    sentence: str


def downstreams(store: Store, now: Micros) -> list[Downstream]:
    """All of them, by name."""
    found = [(each.name, rules.advance(rules.decode(each.value), now)) for each in store.controls(KIND)]
    return [Downstream(name=name, breaker=each, sentence=rules.sentence(name, each, now)) for name, each in found]


def hold(
    store: Store,
    name: str,
    state: BreakerState,
    now: Micros,
    *,
    by: str,
    why: str = "",
    lasts: Duration | None = None,
) -> Breaker:
    """Hold it open or closed, whatever its tasks say, for some time or until it is closed."""
    check_author(by, why)
    until = None if lasts is None else now + micros(duration(lasts, "for"))
    force: Callable[[Breaker], Breaker] = lambda old: rules.force(old, now, state, by=by, why=why, until=until)  # noqa: E731
    return _changed(store, name, force, "held", by, now)


def close(store: Store, name: str, now: Micros, *, by: str) -> Breaker:
    """Close it now; it opens again by the usual rule."""
    check_author(by, "")
    return _changed(store, name, lambda old: rules.reset(old, now, by=by), "closed", by, now)


def _changed(
    store: Store, name: str, change: Callable[[Breaker], Breaker], action: str, by: str, now: Micros
) -> Breaker:
    check_name("downstream", name)
    for _ in range(TRIES):
        control = next((each for each in store.controls(KIND) if each.name == name), None)
        changed = change(Breaker() if control is None else rules.decode(control.value))
        text = rules.sentence(name, changed, now)
        entry = Entry(subject=f"breaker/{name}", action=action, text=text, by=by)
        expect = 0 if control is None else control.version
        if store.put_control(KIND, name, rules.encode(changed), expect=expect, entries=[entry]):
            return changed
    raise ChangedMeanwhile(f"the breaker of {name}")
