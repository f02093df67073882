"""Commits whose answer is lost, of controls: only the writer gets True."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.integration.checks import opened
from tests.support.proxy import Fault, Proxy
from windlass.errors import CommitUnknown
from windlass.stores.coordination import Entry
from windlass.stores.postgres import PostgresStore

LOST = pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NEVER_ARRIVES], ids=lambda fault: fault.name.lower())
GREW = Entry(subject="pool/mail", action="grew", text="▲ 2→4")


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def cut_off(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store whose commits can go wrong; `store` uses the same data."""
    with opened(proxy.url, pooler=request.param) as cut_off:
        yield cut_off


def standing(store: PostgresStore) -> list[tuple[int, str]]:
    return [(control.version, control.value) for control in store.controls("pool")]


@LOST
@pytest.mark.parametrize("expect", [0, 1])
def test_the_writer_of_a_control_gets_true(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault, expect: int
) -> None:
    if expect:
        store.put_control("pool", "mail", "old", expect=0)

    proxy.order(fault)
    written = cut_off.put_control("pool", "mail", "new", expect=expect, entries=[GREW])

    assert proxy.struck.acquire(timeout=10)
    assert written
    assert standing(store) == [(expect + 1, "new")]
    assert len(store.audit()) == 1


@LOST
def test_the_remover_of_a_control_gets_true(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    store.put_control("pool", "mail", "old", expect=0)

    proxy.order(fault)
    removed = cut_off.put_control("pool", "mail", None, expect=1)

    assert proxy.struck.acquire(timeout=10)
    assert removed
    assert standing(store) == []


def lose_first_answer(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let the first transaction's commit go unanswered, and something happen before the next try."""
    db: Any = store._db
    once = db._once
    lost: list[bool] = []

    def losing(work: Callable[[Any], Any]) -> Any:
        answer = once(work)
        if lost:
            return answer
        lost.append(True)
        meanwhile()
        raise CommitUnknown("lost")

    monkeypatch.setattr(db, "_once", losing)


def test_the_outcome_is_unknown_if_the_control_was_changed_since(
    shared_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(shared_url) as other:
        lose_first_answer(store, monkeypatch, lambda: other.put_control("pool", "mail", "newer", expect=1))

        with pytest.raises(CommitUnknown, match="it has been changed since"):
            store.put_control("pool", "mail", "new", expect=0)

        assert standing(other) == [(2, "newer")]


def test_another_who_wrote_the_same_is_not_taken_for_oneself(
    shared_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(shared_url) as other:
        other.put_control("pool", "mail", "same", expect=0)
        lose_first_answer(store, monkeypatch, lambda: None)

        assert not store.put_control("pool", "mail", "same", expect=0)


def test_a_report_of_a_node_is_kept_after_a_lost_commit(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy
) -> None:
    session = store.open_session("node")

    proxy.order(Fault.ANSWER_LOST)
    cut_off.report(session, "here")

    assert proxy.struck.acquire(timeout=10)
    assert [one.report for one in store.look([], ahead=timedelta(0)).reports] == ["here"]
