"""Submitting a large batch needs little memory in addition to the caller's own list, and commits once."""

from __future__ import annotations

import tracemalloc
from typing import Any

import psycopg
import pytest

from tests.integration.checks import opened
from tests.support.builders import a_task, all_tasks
from tests.support.proxy import Fault, Proxy
from windlass.core import submission
from windlass.core.task import NewTask
from windlass.errors import UnknownPrerequisite
from windlass.stores.postgres import PostgresStore, fast_submit
from windlass.stores.protocol import Filter, Store
from windlass.stores.sql import submit as sql_submit

TASKS = 20_000


def batch() -> list[NewTask]:
    """A chain with a thousand characters in each task, half with a key and in a workflow."""
    return [
        a_task(
            args={"text": f"{n:01000}"},
            key=f"k{n}" if n % 2 else None,
            workflow="w" if n % 2 else None,
            prerequisites=[f"k{n - 2}"] if n % 2 and n > 2 else (),
        )
        for n in range(TASKS)
    ]


def test_a_large_batch_needs_less_memory_than_its_callers_list(any_store: Store) -> None:
    any_store.submit([a_task()])
    tracemalloc.start()
    try:
        tasks = batch()
        own, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        receipts = any_store.submit(tasks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len({receipt.id for receipt in receipts}) == TASKS
    assert peak - own < 0.75 * own, f"{(peak - own) / 1e6:.1f} MB in addition to the caller's {own / 1e6:.1f} MB"


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (submission, sql_submit, fast_submit):
        monkeypatch.setattr(module, "CHUNK", 3)


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NEVER_ARRIVES], ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("keyed", [False, True])
def test_a_batch_in_chunks_is_there_once_after_a_lost_commit(
    store: PostgresStore, shared_url: str, fault: Fault, keyed: bool
) -> None:
    with Proxy(shared_url) as proxy, opened(proxy.url) as cut_off:
        proxy.order(fault)
        receipts = cut_off.submit([a_task(args={"n": n}, key=f"k{n}" if keyed else None) for n in range(10)])
        assert proxy.struck.acquire(timeout=10)

    assert [receipt.created for receipt in receipts] == [fault is Fault.NEVER_ARRIVES or not keyed] * 10
    assert [receipt.id for receipt in receipts] == [task.id for task in sorted(all_tasks(store), key=_number)]


def _number(task: Any) -> int:
    return int(task.args[5:-1])


@pytest.mark.usefixtures("_small_chunks")
def test_a_batch_in_chunks_commits_or_rolls_back_with_the_callers_transaction(
    store: PostgresStore, shared_url: str
) -> None:
    chain = [a_task(key=f"k{n}", prerequisites=[f"k{n - 1}"] if n else ()) for n in range(10)]
    with psycopg.connect(shared_url) as conn:
        store.submit(chain, conn=conn)
        conn.rollback()
        assert all_tasks(store) == []
        with pytest.raises(UnknownPrerequisite):
            store.submit([*chain, a_task(key="x", prerequisites=["nobody"])], conn=conn)
        conn.commit()
        assert all_tasks(store) == []  # A refusal leaves nothing behind in the caller's transaction.
        receipts = store.submit(chain, conn=conn)
        conn.commit()

    assert [receipt.id for receipt in receipts] == [task.id for task in sorted(all_tasks(store), key=_key)]
    assert len(store.find(Filter()).tasks) == 10


def _key(task: Any) -> int:
    return int(task.key[1:])
