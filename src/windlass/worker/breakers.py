"""The circuit breakers as one node sees them: which downstreams are shut, and which of its probes are under way.

The breakers live in the store, one document a downstream; every node puts what it heard into them, once a second, if
nobody else has written in between, and otherwise a second later. Attempts that go well are only counted here, and
written once one has failed: a healthy downstream costs no writes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Sequence

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
"""Lots of attempts that are remembered while the store takes no writes."""


class _Ended(Struct):
    """Attempts of one second that nobody else knows of yet."""

    at: Micros
    attempts: int = 0
    errors: int = 0
    probes: int = 0
    probe_errors: int = 0
    error: str = ""


class Breakers:
    """All breakers, from one node."""

    def __init__(self, store: Store, events: Events, node: str) -> None:
        self.shut: tuple[str, ...] = ()
        """The downstreams whose tasks are not to be claimed."""
        self.looked = False
        """Whether that is known, as far as it can be: a node that has just begun must not hammer what is open."""
        self._store = store
        self._events = events
        self._node = node
        self._lock = threading.Lock()
        self._now: Micros = 0
        self._heard: dict[str, deque[_Ended]] = {}
        self._allowed: dict[str, int] = {}
        self._probes: dict[Lease, str] = {}

    def begin_probes(self) -> dict[str, int]:
        """How many probes the caller may claim now, by downstream; `took` says what became of them.

        They are the caller's from here on: a step in between must not take them for unused and grant them again.
        """
        with self._lock:
            found = {name: count for name, count in self._allowed.items() if count}
            self._allowed.clear()
            return found

    def record_probes(self, name: str, claims: Sequence[Claim], begun: int) -> None:
        """These were claimed as probes, of so many that might have been; the others can be made still."""
        with self._lock:
            self._probes.update((claim.lease, name) for claim in claims)
        self._allow(name, begun - len(claims))

    def record_end(self, claim: Claim, outcome: Outcome) -> None:
        """An attempt has ended. A handler that gives up has had its answer: that is no fault of the downstream.

        What was given back or stopped tells nothing about the downstream at all.
        """
        name = claim.task.rules.downstream
        if name is None:
            return
        with self._lock:
            probe = self._probes.pop(claim.lease, None) is not None
            if isinstance(outcome, Released | Stopped):
                self._allowed[name] = self._allowed.get(name, 0) + probe
                return
            failed = isinstance(outcome, Crashed) or (isinstance(outcome, Raised) and not outcome.give_up)
            lots = self._heard.setdefault(name, deque(maxlen=KEPT))
            if not lots or lots[-1].at != self._now:
                lots.append(_Ended(self._now))
            ended = lots[-1]
            if probe:
                ended.probes, ended.probe_errors = ended.probes + 1, ended.probe_errors + failed
            else:
                ended.attempts, ended.errors = ended.attempts + 1, ended.errors + failed
            if failed and isinstance(outcome, Raised | Crashed):
                ended.error = outcome.error.kind

    def step(self, look: Look, me: str, *, want: int) -> None:
        """Bring the breakers up to date, and take up to `want` probes for whatever is half-open."""
        self._now = look.now
        alive = {str(report.session) for report in look.reports}
        stored = {each.name: (rules.decode(each.value), each.version) for each in look.controls if each.kind == KIND}
        for name in sorted({*stored, *self._heard}):
            before, version = stored.get(name, (Breaker(), 0))
            stored[name] = self._turn(name, before, version, look.now, me, alive | {me}, want), version
        self.shut = tuple(name for name, (breaker, _) in stored.items() if breaker.state is not BreakerState.CLOSED)
        self.looked = True

    def _turn(
        self, name: str, before: Breaker, version: int, now: Micros, me: str, alive: Collection[str], want: int
    ) -> Breaker:
        """The breaker after what this node has to say, written if it says anything."""
        ended, unused = self._take_heard(name, now, quiet=before.state is BreakerState.CLOSED and not before.errors)
        breaker = rules.return_probes(rules.drop_dead_probes(rules.advance(before, now), alive), me, unused)
        for lot in ended:
            breaker = rules.record(
                breaker,
                lot.at or now,
                attempts=lot.attempts,
                errors=lot.errors,
                probes=lot.probes,
                probe_errors=lot.probe_errors,
                by=me,
                error=lot.error,
            )
        breaker, got = rules.take_probes(breaker, now, me, want)
        if breaker == before:
            self._allow(name, got)  # What went back unused was taken again.
            return before
        if not self._store.put_control(
            KIND, name, rules.encode(breaker), expect=version, entries=self._entries(name, before, breaker, now)
        ):
            self._give_back_heard(name, ended, unused)
            return before
        self._allow(name, got)
        if breaker.state is not before.state:
            text = rules.sentence(name, breaker, now)
            self._events.emit(BreakerChanged(downstream=name, before=before.state, after=breaker.state, why=text))
        return breaker

    def _take_heard(self, name: str, now: Micros, *, quiet: bool) -> tuple[list[_Ended], int]:
        """What is to be written, and probes that were allowed and not used. A quiet breaker is told of no successes."""
        with self._lock:
            lots = self._heard.get(name, deque())
            while lots and lots[0].at and lots[0].at < now - WINDOW and not lots[0].errors and not lots[0].probes:
                lots.popleft()
            unused, self._allowed[name] = self._allowed.get(name, 0), 0
            if quiet and not any(lot.errors or lot.probes for lot in lots):
                return [], unused
            taken = list(lots)
            lots.clear()
            return taken, unused

    def _give_back_heard(self, name: str, ended: list[_Ended], unused: int) -> None:
        """Somebody else wrote first: say it again at the next step."""
        with self._lock:
            self._heard.setdefault(name, deque(maxlen=KEPT)).extendleft(reversed(ended))
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
