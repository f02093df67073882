"""Circuit breakers for workers that speak HTTP: which tasks they may claim, and what their attempts report.

Nodes collect results and write them once per second. Here each request writes its own, and only while a downstream has
failures. Of two concurrent writers the later one retries a few times and then gives up: that loses the result of one
attempt, which the next one repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from windlass.core import breaker as rules
from windlass.core.breaker import Breaker, BreakerState
from windlass.core.serving import Serves
from windlass.core.settlement import Outcome, Raised, Released
from windlass.core.task import Claim, Rules, SessionId
from windlass.core.times import Micros
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

KIND = "breaker"
TRIES = 3


def claim(store: Store, session: SessionId, queues: Sequence[str], limit: int, now: Micros, can: Serves) -> list[Claim]:
    """Claim tasks: none behind an open breaker, and one probe for each half-open breaker."""
    known = {each.name: rules.advance(rules.decode(each.value), now) for each in store.controls(KIND)}
    shut = tuple(name for name, breaker in known.items() if breaker.state is not BreakerState.CLOSED)
    claims = store.claim(session, queues, limit, serves=replace(can, shut=frozenset(shut)))
    for name in shut:
        if len(claims) < limit and known[name].state is BreakerState.HALF_OPEN:
            claims += _claim_probe(store, session, queues, name, now, can)
    return claims


def record(store: Store, session: SessionId, ended: Iterable[tuple[Rules, Outcome]], now: Micros) -> None:
    """Record the outcomes of attempts in the breakers. An attempt that gave up says nothing against its downstream."""
    known = {each.name: rules.decode(each.value) for each in store.controls(KIND)}
    for its_rules, outcome in ended:
        name = its_rules.downstream
        failed = isinstance(outcome, Raised) and not outcome.give_up
        # A healthy downstream costs no writes: successes count only after a failure.
        if name is not None and (failed or _has_failures(known.get(name))):
            _update(store, name, session, now, _recorder(str(session), outcome, now, failed=failed))


def _claim_probe(
    store: Store, session: SessionId, queues: Sequence[str], name: str, now: Micros, can: Serves
) -> list[Claim]:
    me, taken = str(session), 0
    alive = {str(each.id) for each in store.sessions() if not each.lost}

    def take(breaker: Breaker) -> Breaker:
        nonlocal taken
        breaker, taken = rules.take_probes(rules.drop_dead_probes(breaker, alive), now, me, 1)
        return breaker

    if not _update(store, name, session, now, take) or not taken:
        return []
    claims = store.claim(session, queues, 1, serves=replace(can, only=name))
    if not claims:
        _update(store, name, session, now, lambda breaker: rules.return_probes(breaker, me, 1))
    return claims


def _recorder(me: str, outcome: Outcome, now: Micros, *, failed: bool) -> Callable[[Breaker], Breaker]:
    error = outcome.error.kind if isinstance(outcome, Raised) else ""

    def record_outcome(breaker: Breaker) -> Breaker:
        probe = me in breaker.probing
        if isinstance(outcome, Released):
            return rules.return_probes(breaker, me, int(probe))
        if probe:
            return rules.record(breaker, now, probes=1, probe_errors=int(failed), by=me, error=error)
        return rules.record(breaker, now, attempts=1, errors=int(failed), by=me, error=error)

    return record_outcome


def _has_failures(breaker: Breaker | None) -> bool:
    return breaker is not None and (breaker.state is not BreakerState.CLOSED or breaker.errors > 0)


def _update(store: Store, name: str, session: SessionId, now: Micros, change: Callable[[Breaker], Breaker]) -> bool:
    """Change a breaker. Return False if other writers were faster every time."""
    for _ in range(TRIES):
        control = next((each for each in store.controls(KIND) if each.name == name), None)
        before = Breaker() if control is None else rules.decode(control.value)
        after = change(rules.advance(before, now))
        if after == before:
            return True
        entries = [] if after.state is before.state else [_entry(name, after, now, session)]
        expect = 0 if control is None else control.version
        if store.put_control(KIND, name, rules.encode(after), expect=expect, entries=entries):
            return True
    return False


def _entry(name: str, breaker: Breaker, now: Micros, session: SessionId) -> Entry:
    actions = {BreakerState.OPEN: "opened", BreakerState.HALF_OPEN: "probes", BreakerState.CLOSED: "closed"}
    text = rules.sentence(name, breaker, now)[:2_000]
    return Entry(subject=f"breaker/{name}", action=actions[breaker.state], text=text, by=f"session {session}")
