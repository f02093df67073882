"""The circuit breakers as nodes keep them: two nodes on one memory store, every step by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import GAVE_UP, RAISED, claim_all, submit
from windlass.clock import ManualClock
from windlass.core import breaker as rules
from windlass.core.breaker import DEFAULTS, PROBES, Breaker, BreakerState
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Released, Returned, Stopped
from windlass.core.task import Claim, NewTask
from windlass.events import BreakerChanged, Event, Events
from windlass.operations import breakers
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore
from windlass.worker.breakers import KIND, Breakers

DIED = Crashed(Error(kind="WorkerDied", message="it died"))
SECOND = timedelta(seconds=1)


class Store(MemoryStore):
    """A store that counts what is written about breakers."""

    writes = 0
    before_write: Callable[[], None] | None = None
    """What somebody else does between our look and our write, once."""

    def put_control(self, *args: Any, **kwargs: Any) -> bool:
        meanwhile, self.before_write = self.before_write, None
        if meanwhile is not None:
            meanwhile()
        self.writes += 1
        return super().put_control(*args, **kwargs)


class Street:
    """Some nodes that all need the downstream `bank`."""

    def __init__(self, nodes: int = 2) -> None:
        self.clock = ManualClock()
        self.store = Store(clock=self.clock)
        self.heard: list[Event] = []
        self.sessions = [self.store.open_session(f"node-{number}") for number in range(nodes)]
        self.nodes = [Breakers(self.store, Events(self.heard.append), f"node-{number}") for number in range(nodes)]
        for session in self.sessions:
            self.store.report(session, "{}")

    def claims(self, number: int) -> list[Claim]:
        """So many tasks behind the bank, leased."""
        submit(self.store, *(NewTask(handler="pay", downstream="bank") for _ in range(number)))
        return claim_all(self.store)[:number]

    def end(self, number: int, outcome: Outcome, node: int = 0) -> None:
        for claim in self.claims(number):
            self.nodes[node].record_end(claim, outcome)

    def step(self, *nodes: int, want: int = 0, seconds: float = 1) -> None:
        """A second passes, and these nodes step in this order; all of them when none is named."""
        self.clock.advance(timedelta(seconds=seconds))
        for session in self.sessions:
            self.store.renew(session)
        for node in nodes or range(len(self.nodes)):
            self.look_and_step(node, want)

    def look_and_step(self, node: int, want: int = 0) -> None:
        look = self.store.look(["default"], ahead=SECOND)
        self.nodes[node].step(look, str(self.sessions[node]), want=want)

    def take(self, node: int) -> list[Claim]:
        """The probes that a node may claim now, claimed as its claimer does."""
        taken: list[Claim] = []
        for name, most in self.nodes[node].begin_probes().items():
            claims = self.claims(most)
            self.nodes[node].record_probes(name, claims, most)
            taken += claims
        return taken

    def fail_open(self) -> None:
        self.end(DEFAULTS.row, RAISED)
        self.step()
        self.step()
        assert self.breaker.state is BreakerState.OPEN

    def half_open(self, want: int = 0) -> None:
        self.fail_open()
        self.step(seconds=DEFAULTS.first.total_seconds(), want=want)

    @property
    def breaker(self) -> Breaker:
        [control] = self.store.controls(KIND)
        return rules.decode(control.value)


def all_of(claims: Sequence[Claim], outcome: Outcome, breakers: Breakers) -> None:
    for claim in claims:
        breakers.record_end(claim, outcome)


def test_healthy_traffic_writes_nothing() -> None:
    street = Street()

    for _ in range(60):
        street.end(5, Returned(), node=0)
        street.end(5, Returned(), node=1)
        street.step()

    assert street.store.writes == 0
    assert street.nodes[0].shut == ()


def test_failures_open_it_for_all_nodes() -> None:
    street = Street()

    street.end(DEFAULTS.row, RAISED, node=0)
    street.step(0)
    street.step(1)

    assert [node.shut for node in street.nodes] == [("bank",), ("bank",)]
    assert "ValueError" in street.breaker.reason
    [turned] = [event for event in street.heard if isinstance(event, BreakerChanged)]
    assert (turned.downstream, turned.before, turned.after) == ("bank", "closed", "open")
    [entry] = street.store.audit("breaker/bank")
    assert (entry.action, entry.by) == ("opened", "node-0")


def test_failures_of_both_nodes_add_up() -> None:
    street = Street()

    street.end(DEFAULTS.row // 2, RAISED, node=0)
    street.end(DEFAULTS.row // 2, DIED, node=1)
    street.step()

    assert street.breaker.state is BreakerState.OPEN


def test_successes_of_the_other_node_are_known_when_one_begins_to_fail() -> None:
    """They were never written; without them one node's failures would look like all there is."""
    street = Street(nodes=1)
    street.end(40, Returned())
    street.step()

    street.end(DEFAULTS.row - 1, RAISED)
    street.step()

    assert street.breaker.state is BreakerState.CLOSED
    assert (street.breaker.attempts, street.breaker.errors) == (49, 9)


@pytest.mark.parametrize("outcome", [GAVE_UP, Released(), Released(delay=5_000_000), Returned()])
def test_what_is_no_fault_of_the_downstream_does_not_open_it(outcome: Outcome) -> None:
    street = Street()

    street.end(3 * DEFAULTS.row, outcome)
    street.step()

    assert street.nodes[0].shut == ()
    assert street.store.writes == 0


def test_a_write_that_came_too_late_loses_no_count() -> None:
    street = Street()
    street.end(4, RAISED, node=0)
    street.end(3, RAISED, node=1)

    street.store.before_write = lambda: street.look_and_step(1)
    street.step(0)
    lost = street.breaker.errors
    street.step(0)

    assert lost == 3, "only the other node's count was written"
    assert street.breaker.errors == 7


def test_an_open_breaker_is_left_to_time_and_then_lets_a_few_probes_through() -> None:
    street = Street()
    street.fail_open()

    street.step(want=1)
    assert [street.take(0), street.take(1)] == [[], []]
    street.step(seconds=DEFAULTS.first.total_seconds(), want=1)

    assert street.breaker.state is BreakerState.HALF_OPEN
    assert [len(street.take(0)), len(street.take(1))] == [1, 1]
    assert street.nodes[0].shut == ("bank",), "all others still wait"


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_the_probes_of_all_nodes_together_stay_within_the_bound(nodes: int) -> None:
    street = Street(nodes)
    street.half_open(want=1)
    under_way = sum(len(street.take(node)) for node in range(nodes))

    for _ in range(10):
        street.step(want=1)
        under_way += sum(len(street.take(node)) for node in range(nodes))

    assert under_way == PROBES
    assert street.breaker.under_way == PROBES


def test_a_step_between_the_permit_and_the_claim_grants_no_second_one() -> None:
    street = Street(nodes=1)
    street.half_open(want=1)
    [node] = street.nodes
    permits = node.begin_probes()

    under_way = 0
    for _ in range(10):
        street.step(want=1)
        under_way += len(street.take(0))
    claims = street.claims(permits["bank"])
    node.record_probes("bank", claims, permits["bank"])

    assert under_way + len(claims) <= PROBES


def test_probes_that_find_no_task_are_not_used_up() -> None:
    """The tasks of a failing downstream wait for their next attempt: for a while there is nothing to probe with."""
    street = Street(nodes=1)
    street.half_open(want=1)

    for _ in range(20):
        street.step(want=1)
    idle = street.breaker.under_way

    assert idle <= 1
    assert len(street.take(0)) == 1, "and there is one at once when a task comes"


def test_a_probe_that_found_nothing_to_claim_goes_back() -> None:
    street = Street()
    street.half_open()
    street.step(0, want=3)
    assert street.breaker.under_way == 3

    permits = street.nodes[0].begin_probes()
    street.nodes[0].record_probes("bank", [], permits["bank"])
    street.step(0, want=0)

    assert street.breaker.under_way == 0


def test_a_probe_that_is_given_back_unbegun_tells_nothing_and_may_be_made_again() -> None:
    street = Street(nodes=1)
    street.half_open(want=1)

    all_of(street.take(0), Released(), street.nodes[0])
    street.step(want=0)

    assert (street.breaker.under_way, street.breaker.good, street.breaker.bad) == (0, 0, 0)


def test_a_probe_that_was_cancelled_tells_nothing() -> None:
    street = Street(nodes=1)
    street.half_open(want=1)

    all_of(street.take(0), Stopped(State.CANCELLED), street.nodes[0])
    street.step(want=0)

    assert (street.breaker.under_way, street.breaker.good, street.breaker.bad) == (0, 0, 0)


def test_good_probes_close_it_for_all() -> None:
    street = Street()
    street.half_open(want=1)

    for _ in range(DEFAULTS.good):
        for node in (0, 1):
            all_of(street.take(node), Returned(), street.nodes[node])
        street.step(want=1)
    street.step()

    assert street.breaker.state is BreakerState.CLOSED
    assert [node.shut for node in street.nodes] == [(), ()]
    assert [entry.action for entry in street.store.audit("breaker/bank")] == ["closed", "probes", "opened"]


def test_bad_probes_open_it_again_for_longer() -> None:
    street = Street()
    street.half_open(want=1)

    for node in (0, 1):
        all_of(street.take(node), RAISED, street.nodes[node])
    street.step(want=1)

    assert (street.breaker.state, street.breaker.opened) == (BreakerState.OPEN, 2)
    assert street.breaker.until is not None
    assert street.breaker.until - street.breaker.since == 2 * DEFAULTS.first // timedelta(microseconds=1)
    street.step(want=1)
    assert [street.take(0), street.take(1)] == [[], []]


def test_the_probes_of_a_node_that_is_gone_are_free_again() -> None:
    street = Street()
    street.half_open()
    street.step(0, want=3)
    street.take(0)

    street.store.close_session(street.sessions.pop(0))
    street.clock.advance(SECOND)
    look = street.store.look(["default"], ahead=SECOND)
    street.nodes[1].step(look, str(street.sessions[0]), want=1)

    assert street.breaker.probing == {str(street.sessions[0]): 1}


def test_an_attempt_that_began_before_it_opened_does_not_close_it() -> None:
    street = Street(nodes=1)
    early = street.claims(20)
    street.half_open()

    all_of(early, Returned(), street.nodes[0])
    street.step()

    assert street.breaker.state is BreakerState.HALF_OPEN


def test_what_somebody_holds_open_stays_open_whatever_is_heard() -> None:
    street = Street()
    breakers.hold(
        Access(street.store, clock=street.clock),
        "bank",
        BreakerState.OPEN,
        author=Author("ops", "a migration"),
        lasts="10s",
    )

    street.end(50, Returned())
    street.step(want=1)
    held = [node.shut for node in street.nodes]
    street.step(seconds=10, want=1)

    assert held == [("bank",), ("bank",)]
    assert street.breaker.state is BreakerState.HALF_OPEN, "its time is over, and probes decide"


def test_a_reason_too_long_for_the_ledger_is_refused_before_any_node_must_write_it() -> None:
    street = Street()

    with pytest.raises(ValueError, match="why"):
        breakers.hold(
            Access(street.store, clock=street.clock),
            "bank",
            BreakerState.OPEN,
            author=Author("ops", "x" * 1_950),
            lasts="1s",
        )
    street.step(seconds=2, want=1)

    assert street.store.controls(KIND) == []
