"""The circuit breakers as one node sees them: which downstreams are shut, and which of its probes are under way.

The store has one document per downstream. Once a second, every node adds its attempts to it, unless another node has
written in between; then it does so a second later. Until then, a node whose own attempts would open the breaker starts
nothing more for the downstream. Successes are only counted here until an attempt fails: a healthy downstream costs no
writes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from windlass.core import breaker as rules
from windlass.core.breaker import Breaker, BreakerSettings, BreakerState
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Stopped
from windlass.core.task import Claim, Lease
from windlass.core.times import Micros, micros
from windlass.events import BreakerChanged, Events
from windlass.stores.coordination import MAX_TEXT, Entry, Look
from windlass.stores.protocol import Store

KIND = "breaker"
WINDOW = micros(BreakerSettings().window)
KEPT = 1_000
"""How many seconds of attempts are kept per downstream while the store accepts no writes."""


class _Ended(Struct):
    """Attempts of one second that are not in the store yet."""

    at: Micros
    attempts: int = 0
    errors: int = 0
    probes: int = 0
    probe_errors: int = 0
    error: str = ""


class Breakers:
    """All breakers, as seen by one node."""

    def __init__(self, store: Store, events: Events, node: str) -> None:
        self.shut: tuple[str, ...] = ()
        """The downstreams whose tasks are not to be claimed or started."""
        self.is_known = False
        """Whether `shut` was read, or cannot be read. A node that has just started must not call an open downstream."""
        self._store = store
        self._events = events
        self._node = node
        self._lock = threading.Lock()
        self._now: Micros = 0
        self._stored: dict[str, Breaker] = {}
        """What the store had at the last step."""
        self._ended: dict[str, deque[_Ended]] = {}
        self._allowed: dict[str, int] = {}
        self._probes: dict[Lease, str] = {}

    def begin_probes(self) -> dict[str, int]:
        """Return how many probes the caller may claim now, by downstream. It reports them with `record_probes`.

        They belong to the caller from now on, so that a step in between does not grant them a second time.
        """
        with self._lock:
            found = {name: count for name, count in self._allowed.items() if count}
            self._allowed.clear()
            return found

    def record_probes(self, name: str, claims: Sequence[Claim], begun: int) -> None:
        """Record the tasks claimed as probes. Of the `begun` ones, the rest can still be made."""
        with self._lock:
            self._probes.update((claim.lease, name) for claim in claims)
        self._allow(name, begun - len(claims))

    def record_end(self, claim: Claim, outcome: Outcome) -> None:
        """Record the outcome of an attempt. A handler that gives up got an answer, so the downstream did not fail.

        Released and stopped attempts say nothing about the downstream.
        """
        name = claim.rules.downstream
        if name is None:
            return
        with self._lock:
            probe = self._probes.pop(claim.lease, None) is not None
            if isinstance(outcome, Released | Stopped):
                self._allowed[name] = self._allowed.get(name, 0) + probe
                return
            failed = isinstance(outcome, Crashed) or (isinstance(outcome, Raised) and not outcome.give_up)
            batches = self._ended.setdefault(name, deque(maxlen=KEPT))
            if not batches or batches[-1].at != self._now:
                batches.append(_Ended(self._now))
            ended = batches[-1]
            if probe:
                ended.probes, ended.probe_errors = ended.probes + 1, ended.probe_errors + failed
            else:
                ended.attempts, ended.errors = ended.attempts + 1, ended.errors + failed
            if failed and isinstance(outcome, Raised | Crashed):
                ended.error = outcome.error.kind
                if name not in self.shut and self._would_open(name, batches):
                    self.shut = (*self.shut, name)

    def forbids(self, claim: Claim) -> bool:
        """Return True if a claimed task must not start, because its downstream is shut and it is not a probe."""
        return claim.rules.downstream in self.shut and claim.lease not in self._probes

    def _would_open(self, name: str, batches: Iterable[_Ended]) -> bool:
        """Return whether these attempts would open a breaker. The next step decides for all nodes."""
        breaker = _add(self._stored.get(name, Breaker()), batches, self._now, by="")
        return breaker.state is BreakerState.OPEN

    def step(self, look: Look, me: str, *, want: int) -> None:
        """Update the breakers, and take up to `want` probes for each half-open one."""
        self._now = look.now
        alive = {str(report.session) for report in look.reports}
        stored = {each.name: (rules.decode(each.value), each.version) for each in look.controls if each.kind == KIND}
        for name in sorted({*stored, *self._ended}):
            before, version = stored.get(name, (Breaker(), 0))
            stored[name] = self._update(name, before, version, look.now, me, alive | {me}, want), version
        with self._lock:
            self._stored = {name: breaker for name, (breaker, _) in stored.items()}
            shut = {name for name, each in self._stored.items() if each.state is not BreakerState.CLOSED}
            # Attempts that ended during this step, and those that were not written because another node wrote first.
            shut |= {name for name, batches in self._ended.items() if self._would_open(name, batches)}
            self.shut = tuple(sorted(shut))
        self.is_known = True

    def _update(
        self, name: str, before: Breaker, version: int, now: Micros, me: str, alive: Collection[str], want: int
    ) -> Breaker:
        """Add this node's attempts to a breaker, write it if it changed, and return it."""
        ended, unused = self._take_ended(name, now, quiet=before.state is BreakerState.CLOSED and not before.errors)
        breaker = rules.return_probes(rules.drop_dead_probes(rules.advance(before, now), alive), me, unused)
        breaker = _add(breaker, ended, now, by=me)
        breaker, got = rules.take_probes(breaker, now, me, want)
        if breaker == before:
            self._allow(name, got)  # Unused probes were returned and taken again.
            return before
        if not self._store.put_control(
            KIND, name, rules.encode(breaker), expect=version, entries=self._entries(name, before, breaker, now)
        ):
            self._give_back_ended(name, ended, unused)
            return before
        self._allow(name, got)
        if breaker.state is not before.state:
            text = rules.sentence(name, breaker, now)
            self._events.emit(BreakerChanged(downstream=name, before=before.state, after=breaker.state, why=text))
        return breaker

    def _take_ended(self, name: str, now: Micros, *, quiet: bool) -> tuple[list[_Ended], int]:
        """Return what to write, and how many probes were not used. If `quiet`, successes alone are not written."""
        with self._lock:
            batches = self._ended.get(name, deque())
            while batches and 0 < batches[0].at < now - WINDOW and not batches[0].errors and not batches[0].probes:
                batches.popleft()
            unused, self._allowed[name] = self._allowed.get(name, 0), 0
            if quiet and not any(each.errors or each.probes for each in batches):
                return [], unused
            taken = list(batches)
            batches.clear()
            return taken, unused

    def _give_back_ended(self, name: str, ended: list[_Ended], unused: int) -> None:
        """Keep the attempts for the next step, because another node wrote first."""
        with self._lock:
            self._ended.setdefault(name, deque(maxlen=KEPT)).extendleft(reversed(ended))
        self._allow(name, unused)

    def _allow(self, name: str, probes: int) -> None:
        with self._lock:
            self._allowed[name] = self._allowed.get(name, 0) + probes

    def _entries(self, name: str, before: Breaker, after: Breaker, now: Micros) -> list[Entry]:
        if before.state is after.state:
            return []
        action = {BreakerState.OPEN: "opened", BreakerState.HALF_OPEN: "probes", BreakerState.CLOSED: "closed"}
        text = rules.sentence(name, after, now)[:MAX_TEXT]
        return [Entry(subject=f"breaker/{name}", action=action[after.state], text=text, by=self._node)]


def _add(breaker: Breaker, ended: Iterable[_Ended], now: Micros, *, by: str) -> Breaker:
    """Return the breaker after these attempts."""
    for batch in ended:
        breaker = rules.record(
            breaker,
            batch.at or now,
            attempts=batch.attempts,
            errors=batch.errors,
            probes=batch.probes,
            probe_errors=batch.probe_errors,
            by=by,
            error=batch.error,
        )
    return breaker
