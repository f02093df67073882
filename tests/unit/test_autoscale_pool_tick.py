from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.builders import a_pin
from windlass.autoscale import pool_tick
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.settings import Settings
from windlass.autoscale.shares import HOLD, HeldShare, hold_share
from windlass.autoscale.stored_state import PauseRequest, PoolDecision, PoolOverrides, encode_document
from windlass.core.breaker import Breaker, BreakerState, encode
from windlass.core.task import SessionId
from windlass.stores.coordination import Control, Look, QueueLook, Report

START = 1_800_000_000
ME, OTHER = (str(UUID(int=number)) for number in (1, 2))


class Cluster:
    """A fake store with its nodes: reads, decides and writes."""

    def __init__(self, **reports: PoolReport) -> None:
        self.second = START
        self.queue = QueueLook(queue="mail")
        self.controls: dict[tuple[str, str], Control] = {}
        self.reports = {"1": PoolReport(queues=("mail",), min=1, max=8, override_max=8, ready=1, target=1), **reports}
        self.entries: list[tuple[str, str]] = []

    def look(self) -> Look:
        reports = [
            Report(
                session=SessionId(UUID(int=int(session))),
                node=f"node-{session}",
                report=msgspec.json.encode(NodeReport(pools={"mail": report})).decode(),
                age=timedelta(0),
            )
            for session, report in self.reports.items()
        ]
        return Look(
            now=self.second * 1_000_000,
            queues=[self.queue],
            due=[],
            controls=list(self.controls.values()),
            reports=reports,
        )

    def put(self, kind: str, value: str) -> None:
        known = self.controls.get((kind, "mail"))
        version = known.version + 1 if known else 1
        self.controls[kind, "mail"] = Control(kind=kind, name="mail", version=version, value=value, changed=0)

    def order(self, **fields: Any) -> None:
        self.put("order", encode_document(PoolOverrides(**fields)))

    def tick(self, by: int = 1) -> pool_tick.TickResult | None:
        """Advance the clock, decide each tick and write the result."""
        self.second += by
        look = self.look()
        members = {str(UUID(int=int(session))): report for session, report in self.reports.items()}
        result = pool_tick.decide_tick("mail", look, members, "node-1")
        if result is not None:
            self.put("pool", encode_document(result.decision))
            self.entries += [(entry.action, entry.text) for entry in result.entries]
            ready = result.decision.target
            self.reports["1"] = replace(self.reports["1"], ready=ready, target=ready)
        return result

    @property
    def decision(self) -> PoolDecision:
        decision, _ = pool_tick.read_decision(self.look(), "mail")
        return decision


def test_a_tick_is_decided_once() -> None:
    cluster = Cluster()
    cluster.queue = QueueLook(queue="mail", runnable=1, oldest=0)
    assert cluster.tick() is not None

    assert cluster.tick(by=0) is None
    assert cluster.tick() is not None


def test_a_clock_that_was_set_back_does_not_stop_the_controller() -> None:
    cluster = Cluster()
    cluster.queue = QueueLook(queue="mail", runnable=1, oldest=0)
    cluster.tick(by=1_000)

    assert cluster.tick(by=-3) is None, "a little earlier: another node's clock"
    assert cluster.tick(by=-900) is not None


def test_a_backlog_grows_the_pool_and_the_ledger_has_the_reason() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.tick()
    cluster.queue = QueueLook(queue="mail", runnable=400, oldest=cluster.second * 1_000_000)

    while cluster.decision.target == 1:
        cluster.tick()

    action, text = cluster.entries[-2] if cluster.entries[-1][0] == "alert" else cluster.entries[-1]
    assert action == "grew"
    assert text.startswith(f"▲ 1→{cluster.decision.target}  400 runnable, oldest")
    assert cluster.decision.target <= 8


def test_a_quiet_pool_at_its_minimum_writes_nothing_for_a_minute() -> None:
    cluster = Cluster()
    while not cluster.decision.idle:
        cluster.tick()
        assert cluster.second < START + 300

    silent = [cluster.tick() for _ in range(pool_tick.IDLE_WRITES - 1)]

    assert silent == [None] * (pool_tick.IDLE_WRITES - 1)
    assert cluster.tick() is not None, "and then it says that it is alive"


def test_a_burst_after_silence_counts_as_a_batch() -> None:
    """The quiet seconds are replayed first. Without them, 600 tasks in one second would count as a rate."""
    cluster = Cluster()
    while not cluster.decision.idle:
        cluster.tick()
    cluster.second += 50

    cluster.queue = QueueLook(queue="mail", runnable=600, oldest=cluster.second * 1_000_000)
    cluster.tick()

    assert cluster.decision.state.estimates.rates.rate < 1
    assert cluster.decision.state.estimates.rates.excess


def test_an_override_applies_at_once_to_a_quiet_pool() -> None:
    cluster = Cluster()
    while not cluster.decision.idle:
        cluster.tick()

    cluster.order(override=a_pin(5, until=cluster.second + 3.0, author="ops", why="a sale"))
    cluster.tick()
    pinned = cluster.decision.target
    for _ in range(4):
        cluster.tick()

    assert pinned == 5
    assert any("ops" in text and "a sale" in text for _, text in cluster.entries)
    assert cluster.decision.target == 1, "its time is over"


def test_a_pause_outranks_an_override() -> None:
    cluster = Cluster()
    cluster.tick()

    cluster.order(override=a_pin(5, until=cluster.second + 60.0), paused=PauseRequest(by="ops", at=0))
    cluster.tick()

    assert cluster.decision.target == 0


def test_a_fixed_pool_changes_and_writes_only_for_overrides() -> None:
    cluster = Cluster()
    cluster.reports["1"] = PoolReport(queues=("mail",), min=3, max=3, override_max=64, fixed=True, ready=3)
    cluster.queue = QueueLook(queue="mail", runnable=10_000, oldest=0)
    cluster.tick()
    assert cluster.decision.target == 3
    assert [cluster.tick() for _ in range(3)] == [None] * 3

    cluster.order(override=a_pin(12, until=cluster.second + 60.0, author="ops"))
    cluster.tick()

    assert cluster.decision.target == 12
    assert pool_tick.compute_share(ME, 12, {ME: cluster.reports["1"]}) == 12, (
        "an order may go beyond its size, up to the most"
    )


def test_bounds_are_summed_over_nodes_unless_tuned() -> None:
    report = PoolReport(queues=("mail",), min=1, max=8, threads=2, settings=Settings(wait=3.0))
    members = {ME: report, OTHER: replace(report, settings=Settings(wait=9.0))}

    settings = pool_tick.resolve_settings(members, PoolOverrides())
    tuned = pool_tick.resolve_settings(members, PoolOverrides(tuned={"max": 5, "wait": 1.5, "of_a_later_version": 3}))

    assert (settings.min, settings.max, settings.wait) == (4, 32, 9.0), "in slots; the newest node's goal"
    assert (tuned.min, tuned.max, tuned.wait) == (4, 10, 1.5)


def test_a_hold_is_written_to_the_ledger_once() -> None:
    cluster = Cluster()
    for _ in range(3):
        cluster.tick()
    cluster.order(override=a_pin(2, until=cluster.second + 600.0, author="ops"))
    cluster.queue = QueueLook(queue="mail", runnable=4_000, oldest=cluster.second * 1_000_000)

    for _ in range(60):
        cluster.tick()

    held = [text for action, text in cluster.entries if action == "held" and "ops" in text]
    assert len(held) <= 2


def test_the_limit_of_a_signal_is_an_immediate_maximum() -> None:
    cluster = Cluster()
    cluster.reports["1"] = replace(cluster.reports["1"], ready=6, target=6)
    for _ in range(3):
        cluster.tick()
    assert cluster.decision.target == 6

    cluster.reports["1"] = replace(cluster.reports["1"], limit=2)
    cluster.tick()

    assert cluster.decision.target == 2


def test_the_breaker_of_the_only_downstream_is_observed() -> None:
    cluster = Cluster()
    report = replace(cluster.reports["1"], downstream="payments")
    broken = Breaker(state=BreakerState.OPEN, since=cluster.second * 1_000_000, until=(cluster.second + 30) * 1_000_000)
    control = Control(kind="breaker", name="payments", version=1, value=encode(broken), changed=0)
    cluster.controls["breaker", "payments"] = control

    assert pool_tick.read_breaker(cluster.look(), {ME: report}) == "open"
    assert pool_tick.read_breaker(cluster.look(), {ME: report, OTHER: cluster.reports["1"]}) == "closed"


def test_an_unreadable_decision_counts_as_missing() -> None:
    cluster = Cluster()
    cluster.put("pool", '{"tick": "nonsense"}')

    result = cluster.tick()

    assert result is not None
    assert result.expect == 1, "it is written over, not beside"


@pytest.mark.parametrize("report", ["", "{", '{"pools": 3}', '{"pools": {"mail": {"ready": "many"}}}'])
def test_an_unreadable_report_is_skipped(report: str) -> None:
    look = replace(
        Cluster().look(),
        reports=[Report(session=SessionId(UUID(int=1)), node="here", report=report, age=timedelta(0))],
    )

    assert pool_tick.read_reports(look) == {}


def test_a_node_keeps_its_workers_for_a_while_when_another_joins() -> None:
    size, holding = hold_share(0.0, HeldShare(), 8, 8)
    assert size == 8

    joined, holding = hold_share(1.0, holding, 8, 4)
    almost, holding = hold_share(HOLD, holding, 8, 4)
    after, holding = hold_share(1.0 + HOLD, holding, 8, 4)

    assert (joined, almost, after) == (8, 8, 4)


def test_a_node_shrinks_at_once_when_the_pool_does() -> None:
    _, holding = hold_share(0.0, HeldShare(), 8, 8)

    size, _ = hold_share(1.0, holding, 6, 3)

    assert size == 3


def test_a_node_that_joins_briefly_moves_no_workers() -> None:
    _, holding = hold_share(0.0, HeldShare(), 8, 8)
    _, holding = hold_share(1.0, holding, 8, 4)
    gone, holding = hold_share(20.0, holding, 8, 8)
    again, _ = hold_share(1.0 + HOLD, holding, 8, 4)

    assert (gone, again) == (8, 8), "the hold starts again"
