"""F3: a client that dies while it submits has submitted whole workflows or none, and may simply do it again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.processes import Controller, Crew, open_store
from windlass.core.task import NewTask
from windlass.stores.protocol import Filter, Store

pytestmark = pytest.mark.slow
SIZE, MOST = 30, 400


def a_workflow(number: int) -> list[NewTask]:
    """A chain of tasks with keys."""
    return [
        NewTask(
            handler="work",
            workflow=f"order-{number}",
            key=str(place),
            prerequisites=[str(place - 1)] if place else [],
        )
        for place in range(SIZE)
    ]


def submit_for_ever(test: Controller, url: str) -> None:
    """A client: it submits one workflow after the other, and says the ids of each."""
    store = open_store(url)
    for number in range(MOST):
        test.say([str(receipt.id) for receipt in store.submit(a_workflow(number))])


def test_a_client_killed_in_the_middle_of_submitting_leaves_no_half_workflow(
    url: str, store: Store, crew: Crew
) -> None:
    client = crew.start(submit_for_ever, url=url)
    heard: list[Any] = [client.hear() for _ in range(10)]

    client.kill()

    found = [len(store.find(Filter(workflow=f"order-{number}"), limit=SIZE + 1).tasks) for number in range(MOST)]
    there = [number for number, tasks in enumerate(found) if tasks]
    assert {found[number] for number in there} == {SIZE}, "each is whole or absent"
    assert len(heard) <= len(there) < MOST
    again = [store.submit(a_workflow(number)) for number in range(len(there) + 2)]
    assert [[str(receipt.id) for receipt in receipts] for receipts in again[: len(heard)]] == heard
    created = [number for number, receipts in enumerate(again) if any(receipt.created for receipt in receipts)]
    assert created == [len(there), len(there) + 1], "what was there is answered, not made again"
