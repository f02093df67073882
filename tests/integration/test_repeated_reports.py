from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.builders import GAVE_UP, a_task, claim_one, complete, decided, state_of, submit, sweep_until_quiet
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Settled
from windlass.stores.sql import endings, settle
from windlass.stores.sql.graph import Resolved
from windlass.stores.sql.store import SqlStore
from windlass.stores.sqlite import SQLiteStore


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    if request.param == "sqlite":
        store: SqlStore = SQLiteStore(tmp_path / "windlass.db")
    else:
        store = PostgresStore(request.getfixturevalue("migrated_url"))
    yield store
    store.close()


@pytest.mark.parametrize("bad", [False, True], ids=["completed", "failed"])
def test_a_repeated_report_resolves_the_edges_that_the_first_left(
    either: SqlStore, monkeypatch: pytest.MonkeyPatch, bad: bool
) -> None:
    [_, child] = submit(either, a_task(key="parent"), a_task(prerequisites=["parent"]))
    claim = claim_one(either)
    settlement = decided(claim, GAVE_UP) if bad else COMPLETED
    with monkeypatch.context() as patch:  # No edge is resolved in the transaction, and the process dies right after it.
        patch.setattr(settle, "LEVELS", 0)
        patch.setattr(endings, "LEVELS", 0)
        patch.setattr(settle, "resolve_some", lambda *_, **__: Resolved(0, set(), left=True))
        either.settle([(claim.lease, settlement)])
    before = state_of(either, child)

    verdicts = either.settle([(claim.lease, settlement)])

    assert verdicts == [Settled(claim.lease, settlement.state)]
    assert before is State.WAITING
    assert state_of(either, child) is (State.CANCELLED if bad else State.RUNNABLE)
    assert sweep_until_quiet(either).healed == 0


def test_an_ordinary_report_asks_the_database_no_more_than_before(
    either: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(either, a_task())
    claim = claim_one(either)
    transactions: list[object] = []
    transact = either._db.transact

    def counted(work: object, **options: object) -> object:
        transactions.append(work)
        return transact(work, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(either._db, "transact", counted)
    complete(either, claim)

    assert len(transactions) == 1
