"""Connections that break in the middle of the protocol: the driver's errors then say little about what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.integration.checks import assert_sound, granted, leased_now, opened
from tests.support.builders import SECOND, a_session, all_tasks, claim_one, complete, submit_one
from tests.support.proxy import Fault, Proxy
from windlass.core.lifecycle import State
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable
from windlass.stores.postgres import PostgresStore, database
from windlass.stores.postgres.transaction import PostgresTransaction
from windlass.stores.protocol import Settled


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def broken_store(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store with one connection that the proxy can break; `store` uses the same data."""
    assert all_tasks(store) == []
    with opened(proxy.url, pooler=request.param, connections=1) as broken_store:
        yield broken_store


TWO_ERRORS = pytest.mark.parametrize("at", [b"BEGIN", b"COMMIT\0"], ids=["begin", "commit"])


@TWO_ERRORS
def test_two_errors_in_answer_to_one_command_of_a_submit_go_unseen(
    store: PostgresStore, broken_store: PostgresStore, proxy: Proxy, at: bytes
) -> None:
    proxy.order(Fault.TWO_ERRORS, at=at)
    id = submit_one(broken_store, deadline=SECOND)

    assert proxy.struck.acquire(timeout=10)
    assert [task.id for task in all_tasks(store)] == [id]
    assert_sound(store)


@TWO_ERRORS
def test_two_errors_in_answer_to_one_command_of_an_attempt_go_unseen(
    store: PostgresStore, broken_store: PostgresStore, proxy: Proxy, at: bytes
) -> None:
    submit_one(store)
    session = a_session(store)
    proxy.order(Fault.TWO_ERRORS, at=at)
    claims = broken_store.claim(session, ["default"], 10)
    assert proxy.struck.acquire(timeout=10)
    assert granted(claims) == leased_now(store)
    assert claims, "nothing was committed by the connection that broke, so nothing was locked"

    proxy.order(Fault.TWO_ERRORS, at=at)
    verdicts = complete(broken_store, *claims)
    assert proxy.struck.acquire(timeout=10)
    assert verdicts == [Settled(claims[0].lease, State.COMPLETED)]
    assert_sound(store)


def test_a_connection_that_keeps_breaking_is_unavailable(broken_store: PostgresStore, proxy: Proxy) -> None:
    proxy.order(*[Fault.TWO_ERRORS] * 100, at=b"BEGIN")
    with pytest.raises(StoreUnavailable):
        broken_store.look(["default"], ahead=timedelta(0))


@pytest.mark.parametrize(
    "error",
    [
        psycopg.InternalError("received 2 results from command 'BEGIN'"),
        psycopg.InterfaceError("unexpected result PIPELINE_SYNC from command 'BEGIN'"),
        psycopg.ProgrammingError("the last operation didn't produce records"),
        ValueError("too many values to unpack (expected 1)"),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("committing", [False, True], ids=["before the commit", "during the commit"])
def test_whatever_is_raised_on_a_lost_connection_means_that_the_store_is_away(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, error: Exception, committing: bool
) -> None:
    """The driver raises all of these when the server goes away in the middle of a pipeline."""
    monkeypatch.setattr(database, "TRIES", 1)
    id = submit_one(store)
    claim = claim_one(store)

    def breaking(target: type[Any], method: str, connection_of: Callable[[Any], psycopg.Connection]) -> None:
        def broken(self: Any, *_: object, **__: object) -> Any:
            connection_of(self).pgconn.finish()
            raise error

        monkeypatch.setattr(target, method, broken)

    if committing:
        breaking(psycopg.Connection, "commit", lambda connection: connection)
    else:
        breaking(PostgresTransaction, "query", lambda transaction: transaction._connection)
    with pytest.raises(CommitUnknown if committing else StoreUnavailable) as raised:
        complete(store, claim)
    monkeypatch.undo()

    assert raised.value.__cause__ is not None
    assert complete(store, claim) == [Settled(claim.lease, State.COMPLETED)], "with another connection"
    assert [task.id for task in all_tasks(store)] == [id]


def test_an_error_of_ours_on_a_sound_connection_is_not_called_an_outage(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(self: PostgresTransaction, *_: object, **__: object) -> Any:
        raise psycopg.ProgrammingError("the query has 1 placeholders but 2 parameters were passed")

    monkeypatch.setattr(PostgresTransaction, "query", mistaken)
    with pytest.raises(StoreError) as raised:
        store.counts()

    assert not isinstance(raised.value, StoreUnavailable)
