"""Cancelling and expiring running tasks: they are asked, then interrupted, then killed, and always end cancelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, gone, read_effects
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
SHORT = ("--session-ttl", "2s")


def test_a_cancelled_handler_is_asked_then_interrupted_then_killed(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "5", *SHORT, workers=5)
    cooperative, napping = shop.wait_for_cancel.enqueue(), shop.nap.enqueue(60)
    sleeping, spinning = shop.sleep.enqueue(60), shop.spin_on.enqueue()
    expiring = shop.sleep.using(expires=1).enqueue(60)
    began = await_effect(effects, "began", 5)
    pids = {each["task"]: each["pid"] for each in began}

    cancelled = [cooperative, napping, sleeping, spinning]
    for handle in cancelled:
        handle.cancel("no longer wanted")

    assert cooperative.wait(5) is State.CANCELLED
    assert [each["task"] for each in read_effects(effects, "stopped")] == [str(cooperative.id)]
    assert [handle.wait(PATIENCE) for handle in cancelled] == [State.CANCELLED] * 4
    assert [handle.task().reason for handle in cancelled] == ["no longer wanted"] * 4
    assert expiring.wait(PATIENCE) is State.EXPIRED
    assert not read_effects(effects, "ended")
    assert gone(pids[str(spinning.id)])
    assert not any(gone(pids[str(handle.id)]) for handle in (cooperative, napping, sleeping, expiring)), (
        "these stopped without a kill"
    )
    assert len(read_effects(effects, "began")) == 5, "none of them ran again"


def test_dependents_of_a_cancelled_task_are_cancelled_too(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1", *SHORT)
    with shop.app.workflow("cancelled") as wf:
        first = wf.add(shop.wait_for_cancel)
        second = wf.add(shop.add.using(after=[first]), 1)
    await_effect(effects, "began")

    shop.app.handle(first.id).cancel()

    assert shop.app.handle(second.id).wait(PATIENCE) is State.CANCELLED
    assert not read_effects(effects, "add")
