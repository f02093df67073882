"""What happens to a node whose own threads fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, as_given
from tests.support.processes import open_store
from windlass.config import NodeSettings, PoolSettings
from windlass.core.lifecycle import State
from windlass.core.task import Claim, SessionId
from windlass.events import DutyFailed, Event, Events, SessionOpened
from windlass.stores.protocol import Store
from windlass.worker import duty
from windlass.worker.duty import MAX_FAILURES
from windlass.worker.node import Node

pytestmark = pytest.mark.slow


class FailingStore:
    """A store whose first claims fail with an unexpected error, after the tasks were claimed."""

    def __init__(self, store: Store, times: int) -> None:
        self._store = store
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, session: SessionId, queues: Sequence[str], limit: int, **more: Any) -> list[Claim]:
        claims = self._store.claim(session, queues, limit, **more)
        if claims and self.times:
            self.times -= 1
            raise KeyError("a mistake of ours")
        return claims


@pytest.fixture(params=["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of one kind of store, because the node fails here."""
    return str(tmp_path / "windlass.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@contextmanager
def running(url: str, failures: int, events: list[Event]) -> Iterator[Node]:
    settings = NodeSettings(app="tests.e2e.shop:app", pools=(PoolSettings(size=1),))
    given = as_given(url)
    node = Node(settings, lambda: cast("Store", FailingStore(open_store(url), failures)), given, Events(events.append))
    try:
        node.start()
        yield node
    finally:
        node.close()


def test_a_claimer_that_fails_is_restarted_and_its_claimed_tasks_run(
    url: str, shop_store: Store, effects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_EFFECTS", str(effects))
    handles = shop.app.enqueue_many(shop.add.bind(number) for number in range(20))
    events: list[Event] = []

    with running(url, 2, events) as node:
        states = {handle.wait(PATIENCE) for handle in handles}
        assert (node.failure, node.ended.is_set()) == (None, False)

    assert states == {State.COMPLETED}
    assert {(task.losses, task.crashes, task.attempts) for task in (handle.task() for handle in handles)} == {(0, 0, 1)}
    failures = [event for event in events if isinstance(event, DutyFailed)]
    assert [(event.duty, event.error) for event in failures] == [
        ("claimer-default", "KeyError: 'a mistake of ours'")
    ] * 2
    assert all("in claim" in event.traceback for event in failures)
    assert len([event for event in events if isinstance(event, SessionOpened)]) == 3, "each failure retires a session"


def test_a_claimer_that_keeps_failing_ends_the_node_and_leaves_nothing_leased(
    url: str, shop_store: Store, effects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_EFFECTS", str(effects))
    monkeypatch.setattr(duty, "LONGEST_WAIT", 0.1)
    handle = shop.add.enqueue(1)
    events: list[Event] = []

    with running(url, MAX_FAILURES, events) as node:
        assert node.ended.wait(PATIENCE)
        failure = node.failure

    assert failure == (
        "the duty claimer-default failed 10 times within 60 s; the latest error is KeyError: 'a mistake of ours'"
    )
    assert [event.again_in for event in events if isinstance(event, DutyFailed)][-1] is None
    assert handle.state is State.RUNNABLE, "the node has closed its session"


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_node_that_can_never_claim_ends_with_its_own_exit_status(
    postgres_url: str, effects: Path, shop_store: Store
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a test wants this' USING ERRCODE = '22012'; END $$"
        )
        admin.execute("CREATE TRIGGER fail AFTER INSERT ON windlass.leased EXECUTE FUNCTION public.fail()")
    shop.add.enqueue(1)

    with NodeProcess(postgres_url, effects, "-n", "1") as node:
        status = node.process.wait(PATIENCE)

    assert status == 9
    message = "The node stopped: the duty claimer-default failed 10 times within 60 s; the latest error is "
    assert message in node.log
    assert "PostgreSQL: a test wants this" in node.log
