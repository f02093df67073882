"""Steps that a running task adds, events and sleeps, on a real node with a single worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, read_effects
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
CHILDREN = 20


def test_one_worker_runs_a_parent_its_children_an_approval_and_a_sleep(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    node("-n", "1")
    with shop.app.workflow("squares") as wf:
        total = wf.add(shop.sum_of_squares, CHILDREN)
        approved = wf.wait_for("approved", timeout="1h", after=[total])
        slept = wf.sleep("200ms", after=[approved])
        published = wf.add(shop.publish, total, approved, after=[slept])

    assert total.result("60s") == sum(number * number for number in range(CHILDREN))
    assert approved.state in (State.SCHEDULED, State.WAITING)
    assert shop.approve.enqueue("squares").result("30s") is True

    assert published.result("30s") == "2470 by a handler"
    assert len(read_effects(effects, "split")) == 1
    assert sorted(each["number"] for each in read_effects(effects, "square")) == list(range(CHILDREN))
    assert {count.state for count in shop_store.counts() if count.tasks} == {State.COMPLETED}
    [entry] = shop_store.audit("workflow/squares")
    assert entry.by.startswith("task ")
    ended, began = slept.task().finished, approved.task().finished
    assert ended is not None
    assert began is not None
    assert (ended - began).total_seconds() >= 0.2
