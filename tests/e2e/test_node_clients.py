"""F3: a client that dies while it submits has submitted whole workflows or none, and can simply repeat it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.processes import Controller, ProcessGroup, open_store
from windlass.core.task import NewTask
from windlass.stores.protocol import Filter, Store

pytestmark = pytest.mark.slow
SIZE, MOST = 30, 400


def a_workflow(number: int) -> list[NewTask]:
    """Return a chain of tasks with keys."""
    return [
        NewTask(
            handler="work",
            workflow=f"order-{number}",
            key=str(place),
            prerequisites=[str(place - 1)] if place else [],
        )
        for place in range(SIZE)
    ]


def submit_forever(test: Controller, url: str) -> None:
    """Submit one workflow after another, and send the ids of each."""
    store = open_store(url)
    for number in range(MOST):
        test.send([str(receipt.id) for receipt in store.submit(a_workflow(number))])


def test_a_client_killed_in_the_middle_of_submitting_leaves_no_partial_workflow(
    url: str, store: Store, group: ProcessGroup
) -> None:
    client = group.start(submit_forever, url=url)
    received: list[Any] = [client.receive() for _ in range(10)]

    client.kill()

    found = [len(store.find(Filter(workflow=f"order-{number}"), limit=SIZE + 1).tasks) for number in range(MOST)]
    there = [number for number, tasks in enumerate(found) if tasks]
    assert {found[number] for number in there} == {SIZE}, "each workflow is complete or absent"
    assert len(received) <= len(there) < MOST
    again = [store.submit(a_workflow(number)) for number in range(len(there) + 2)]
    assert [[str(receipt.id) for receipt in receipts] for receipts in again[: len(received)]] == received
    created = [number for number, receipts in enumerate(again) if any(receipt.created for receipt in receipts)]
    assert created == [len(there), len(there) + 1], "existing tasks are returned, not created again"
