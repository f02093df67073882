"""Circuit breakers of two nodes on one memory store, stepped by hand."""

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
    """A store that counts writes of breakers."""

    writes = 0
    before_write: Callable[[], None] | None = None
    """What another node does between the next look and write, once."""

    def put_control(self, *args: Any, **kwargs: Any) -> bool:
        meanwhile, self.before_write = self.before_write, None
        if meanwhile is not None:
            meanwhile()
        self.writes += 1
        return super().put_control(*args, **kwargs)


class Cluster:
    """Nodes that all use the downstream `bank`."""

    def __init__(self, nodes: int = 2) -> None:
        self.clock = ManualClock()
        self.store = Store(clock=self.clock)
        self.events: list[Event] = []
        self.sessions = [self.store.open_session(f"node-{number}") for number in range(nodes)]
        self.nodes = [Breakers(self.store, Events(self.events.append), f"node-{number}") for number in range(nodes)]
        for session in self.sessions:
            self.store.report(session, "{}")

    def claims(self, number: int) -> list[Claim]:
        """Claim this many tasks that need the bank."""
        submit(self.store, *(NewTask(handler="pay", downstream="bank") for _ in range(number)))
        return claim_all(self.store)[:number]

    def end(self, number: int, outcome: Outcome, node: int = 0) -> None:
        for claim in self.claims(number):
            self.nodes[node].record_end(claim, outcome)

    def step(self, *nodes: int, want: int = 0, seconds: float = 1) -> None:
        """Let a second pass, then step these nodes in this order; all nodes by default."""
        self.clock.advance(timedelta(seconds=seconds))
        for session in self.sessions:
            self.store.renew(session)
        for node in nodes or range(len(self.nodes)):
            self.look_and_step(node, want)

    def look_and_step(self, node: int, want: int = 0) -> None:
        look = self.store.look(["default"], ahead=SECOND)
        self.nodes[node].step(look, str(self.sessions[node]), want=want)

    def take(self, node: int) -> list[Claim]:
        """Claim the probes that a node may claim now, as its claimer does."""
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


def end_all(claims: Sequence[Claim], outcome: Outcome, breakers: Breakers) -> None:
    for claim in claims:
        breakers.record_end(claim, outcome)


def test_healthy_traffic_writes_nothing() -> None:
    cluster = Cluster()

    for _ in range(60):
        cluster.end(5, Returned(), node=0)
        cluster.end(5, Returned(), node=1)
        cluster.step()

    assert cluster.store.writes == 0
    assert cluster.nodes[0].shut == ()


def test_failures_open_it_for_all_nodes() -> None:
    cluster = Cluster()

    cluster.end(DEFAULTS.row, RAISED, node=0)
    cluster.step(0)
    cluster.step(1)

    assert [node.shut for node in cluster.nodes] == [("bank",), ("bank",)]
    assert "ValueError" in cluster.breaker.reason
    [changed] = [event for event in cluster.events if isinstance(event, BreakerChanged)]
    assert (changed.downstream, changed.before, changed.after) == ("bank", "closed", "open")
    [entry] = cluster.store.audit("breaker/bank")
    assert (entry.action, entry.by) == ("opened", "node-0")


def test_failures_of_both_nodes_add_up() -> None:
    cluster = Cluster()

    cluster.end(DEFAULTS.row // 2, RAISED, node=0)
    cluster.end(DEFAULTS.row // 2, DIED, node=1)
    cluster.step()

    assert cluster.breaker.state is BreakerState.OPEN


def test_earlier_successes_count_when_attempts_begin_to_fail() -> None:
    """They were never written. Without them the failures would look like all attempts."""
    cluster = Cluster(nodes=1)
    cluster.end(40, Returned())
    cluster.step()

    cluster.end(DEFAULTS.row - 1, RAISED)
    cluster.step()

    assert cluster.breaker.state is BreakerState.CLOSED
    assert (cluster.breaker.attempts, cluster.breaker.errors) == (49, 9)


@pytest.mark.parametrize("outcome", [GAVE_UP, Released(), Released(delay=5_000_000), Returned()])
def test_outcomes_that_are_not_the_downstreams_fault_do_not_open_it(outcome: Outcome) -> None:
    cluster = Cluster()

    cluster.end(3 * DEFAULTS.row, outcome)
    cluster.step()

    assert cluster.nodes[0].shut == ()
    assert cluster.store.writes == 0


def test_a_write_that_lost_a_race_loses_no_count() -> None:
    cluster = Cluster()
    cluster.end(4, RAISED, node=0)
    cluster.end(3, RAISED, node=1)

    cluster.store.before_write = lambda: cluster.look_and_step(1)
    cluster.step(0)
    lost = cluster.breaker.errors
    cluster.step(0)

    assert lost == 3, "only the other node's count was written"
    assert cluster.breaker.errors == 7


def test_a_node_stops_claiming_as_soon_as_its_own_failures_would_open_it() -> None:
    cluster = Cluster()
    cluster.step()

    cluster.end(DEFAULTS.row - 1, RAISED)
    before = cluster.nodes[0].shut
    cluster.end(1, RAISED)

    assert (before, cluster.nodes[0].shut) == ((), ("bank",)), "not a second later"
    assert cluster.nodes[1].shut == ()
    assert cluster.nodes[0].begin_probes() == {}


def test_a_node_claims_nothing_while_its_write_is_put_off() -> None:
    cluster = Cluster()
    cluster.end(DEFAULTS.row, RAISED, node=0)
    cluster.end(3, RAISED, node=1)

    cluster.store.before_write = lambda: cluster.look_and_step(1)
    cluster.step(0)

    assert cluster.breaker.state is BreakerState.CLOSED, "only the other node's attempts were written"
    assert cluster.nodes[0].shut == ("bank",)


def test_a_breaker_held_closed_by_an_operator_is_not_shut_by_a_node() -> None:
    cluster = Cluster(nodes=1)
    cluster.end(1, RAISED)
    cluster.step()
    author = Author("ops", "we know")
    breakers.hold(Access(cluster.store, clock=cluster.clock), "bank", BreakerState.CLOSED, author=author)
    cluster.step()

    cluster.end(3 * DEFAULTS.row, RAISED)

    assert cluster.nodes[0].shut == ()


def test_an_open_breaker_waits_and_then_lets_a_few_probes_through() -> None:
    cluster = Cluster()
    cluster.fail_open()

    cluster.step(want=1)
    assert [cluster.take(0), cluster.take(1)] == [[], []]
    cluster.step(seconds=DEFAULTS.first.total_seconds(), want=1)

    assert cluster.breaker.state is BreakerState.HALF_OPEN
    assert [len(cluster.take(0)), len(cluster.take(1))] == [1, 1]
    assert cluster.nodes[0].shut == ("bank",), "other tasks still wait"


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_the_probes_of_all_nodes_together_stay_within_the_bound(nodes: int) -> None:
    cluster = Cluster(nodes)
    cluster.half_open(want=1)
    under_way = sum(len(cluster.take(node)) for node in range(nodes))

    for _ in range(10):
        cluster.step(want=1)
        under_way += sum(len(cluster.take(node)) for node in range(nodes))

    assert under_way == PROBES
    assert cluster.breaker.under_way == PROBES


def test_a_step_between_the_permit_and_the_claim_grants_no_second_one() -> None:
    cluster = Cluster(nodes=1)
    cluster.half_open(want=1)
    [node] = cluster.nodes
    permits = node.begin_probes()

    under_way = 0
    for _ in range(10):
        cluster.step(want=1)
        under_way += len(cluster.take(0))
    claims = cluster.claims(permits["bank"])
    node.record_probes("bank", claims, permits["bank"])

    assert under_way + len(claims) <= PROBES


def test_probes_that_find_no_task_are_not_used_up() -> None:
    """The tasks of a failing downstream wait for their next attempt, so there may be nothing to probe with."""
    cluster = Cluster(nodes=1)
    cluster.half_open(want=1)

    for _ in range(20):
        cluster.step(want=1)
    idle = cluster.breaker.under_way

    assert idle <= 1
    assert len(cluster.take(0)) == 1, "a probe is available as soon as a task is"


def test_a_probe_without_a_task_is_returned() -> None:
    cluster = Cluster()
    cluster.half_open()
    cluster.step(0, want=3)
    assert cluster.breaker.under_way == 3

    permits = cluster.nodes[0].begin_probes()
    cluster.nodes[0].record_probes("bank", [], permits["bank"])
    cluster.step(0, want=0)

    assert cluster.breaker.under_way == 0


def test_a_released_probe_does_not_count_and_can_be_repeated() -> None:
    cluster = Cluster(nodes=1)
    cluster.half_open(want=1)

    end_all(cluster.take(0), Released(), cluster.nodes[0])
    cluster.step(want=0)

    assert (cluster.breaker.under_way, cluster.breaker.good, cluster.breaker.bad) == (0, 0, 0)


def test_a_cancelled_probe_does_not_count() -> None:
    cluster = Cluster(nodes=1)
    cluster.half_open(want=1)

    end_all(cluster.take(0), Stopped(State.CANCELLED), cluster.nodes[0])
    cluster.step(want=0)

    assert (cluster.breaker.under_way, cluster.breaker.good, cluster.breaker.bad) == (0, 0, 0)


def test_successful_probes_close_it_for_all_nodes() -> None:
    cluster = Cluster()
    cluster.half_open(want=1)

    for _ in range(DEFAULTS.good):
        for node in (0, 1):
            end_all(cluster.take(node), Returned(), cluster.nodes[node])
        cluster.step(want=1)
    cluster.step()

    assert cluster.breaker.state is BreakerState.CLOSED
    assert [node.shut for node in cluster.nodes] == [(), ()]
    assert [entry.action for entry in cluster.store.audit("breaker/bank")] == ["closed", "probes", "opened"]


def test_failed_probes_open_it_again_for_longer() -> None:
    cluster = Cluster()
    cluster.half_open(want=1)

    for node in (0, 1):
        end_all(cluster.take(node), RAISED, cluster.nodes[node])
    cluster.step(want=1)

    assert (cluster.breaker.state, cluster.breaker.opened) == (BreakerState.OPEN, 2)
    assert cluster.breaker.until is not None
    assert cluster.breaker.until - cluster.breaker.since == 2 * DEFAULTS.first // timedelta(microseconds=1)
    cluster.step(want=1)
    assert [cluster.take(0), cluster.take(1)] == [[], []]


def test_the_probes_of_a_lost_node_are_free_again() -> None:
    cluster = Cluster()
    cluster.half_open()
    cluster.step(0, want=3)
    cluster.take(0)

    cluster.store.close_session(cluster.sessions.pop(0))
    cluster.clock.advance(SECOND)
    look = cluster.store.look(["default"], ahead=SECOND)
    cluster.nodes[1].step(look, str(cluster.sessions[0]), want=1)

    assert cluster.breaker.probing == {str(cluster.sessions[0]): 1}


def test_an_attempt_that_started_before_it_opened_does_not_close_it() -> None:
    cluster = Cluster(nodes=1)
    early = cluster.claims(20)
    cluster.half_open()

    end_all(early, Returned(), cluster.nodes[0])
    cluster.step()

    assert cluster.breaker.state is BreakerState.HALF_OPEN


def test_a_breaker_held_open_by_an_operator_ignores_successes() -> None:
    cluster = Cluster()
    breakers.hold(
        Access(cluster.store, clock=cluster.clock),
        "bank",
        BreakerState.OPEN,
        author=Author("ops", "a migration"),
        lasts="10s",
        create=True,
    )

    cluster.end(50, Returned())
    cluster.step(want=1)
    held = [node.shut for node in cluster.nodes]
    cluster.step(seconds=10, want=1)

    assert held == [("bank",), ("bank",)]
    assert cluster.breaker.state is BreakerState.HALF_OPEN, "its time is over, so probes decide"


def test_a_reason_that_is_too_long_for_the_audit_log_is_refused() -> None:
    cluster = Cluster()

    with pytest.raises(ValueError, match="why"):
        breakers.hold(
            Access(cluster.store, clock=cluster.clock),
            "bank",
            BreakerState.OPEN,
            author=Author("ops", "x" * 1_950),
            lasts="1s",
            create=True,
        )
    cluster.step(seconds=2, want=1)

    assert cluster.store.controls(KIND) == []
