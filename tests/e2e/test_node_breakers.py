"""Circuit breakers with real workers: a bank that is down, slow, and healthy again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.e2e import shop
from tests.e2e.test_node_scaling import await_all, await_first_decision, await_ticks
from tests.support.nodes import PATIENCE, NodeProcess, as_given, read_effects
from tests.support.processes import until
from windlass.cli.main import main
from windlass.client.handle import Handle
from windlass.core import breaker as rules
from windlass.core.breaker import PROBES, Breaker, BreakerState
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def windlass(url: str) -> Callable[..., Result]:
    """Run commands in this process."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, env={"WINDLASS_URL": as_given(url)})

    return run


def breaker(store: Store) -> Breaker:
    controls = store.controls("breaker")
    return rules.decode(controls[0].value) if controls else Breaker()


def await_state(store: Store, state: BreakerState) -> None:
    until(lambda: breaker(store).state is state, f"the breaker is {state}")


def end_its_time(store: Store) -> None:
    """End the half minute of an open breaker now, as if the test had waited for it."""
    written = False
    while not written:
        [control] = store.controls("breaker")
        over = replace(rules.decode(control.value), until=control.changed)
        written = store.put_control("breaker", "bank", rules.encode(over), expect=control.version)


def in_states(handles: Sequence[Handle[Any]], *states: State) -> list[Handle[Any]]:
    return [handle for handle in handles if handle.state in states]


def test_an_error_storm_opens_the_breaker_and_recovery_closes_it(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path, windlass: Callable[..., Result]
) -> None:
    started = node("--max", "3")
    await_first_decision(shop_store)
    effects.with_name("down").touch()
    handles = [shop.pay.enqueue() for _ in range(90)]

    await_state(shop_store, BreakerState.OPEN)
    until(lambda: not in_states(handles, State.LEASED), "all started tasks have ended")
    began = len(read_effects(effects, "began"))
    await_ticks(shop_store, 3)

    assert len(read_effects(effects, "began")) == began, "nothing more is started"
    waiting = [handle for handle in in_states(handles, State.RUNNABLE) if not handle.task().attempts]
    assert len(waiting) > 30, "most were never tried, and are charged nothing"
    why = windlass("why", str(waiting[0].id))
    assert (why.exit_code, "bank is open" in why.stdout) == (3, True), why.output
    assert "ConnectionError" in why.stdout
    assert "bank is open" in windlass("breaker", "ls").stdout
    assert shop.add.enqueue(1).result(PATIENCE) == 2, "other tasks run"

    effects.with_name("down").unlink()
    end_its_time(shop_store)
    await_state(shop_store, BreakerState.CLOSED)
    tasks = await_all(shop_store, handles)
    assert {task.attempts for task in tasks if str(task.id) in {str(handle.id) for handle in waiting}} == {1}
    assert {(task.crashes, task.losses) for task in tasks} == {(0, 0)}
    paid = [each["task"] for each in read_effects(effects, "ended")]
    assert sorted(paid) == sorted(str(handle.id) for handle in handles), "each is paid once"
    changes = [(each["before"], each["after"]) for each in started.events("BreakerChanged")]
    assert changes == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]


def test_the_probes_of_two_nodes_stay_within_one_bound(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path, windlass: Callable[..., Result]
) -> None:
    assert windlass("breaker", "open", "bank", "--create", "--why", "a test").exit_code == 0
    effects.with_name("slow").touch()
    handles = [shop.pay.enqueue() for _ in range(30)]
    for _ in range(2):
        node("-n", "4", workers=4)
    others = [shop.sleep.enqueue(0.2) for _ in range(40)]
    await_all(shop_store, others)
    assert len(in_states(handles, State.RUNNABLE)) == 30, "it was open before the nodes started"

    end_its_time(shop_store)
    until(lambda: breaker(shop_store).under_way == PROBES, "all probes are under way")
    others += [shop.sleep.enqueue(0.2) for _ in range(40)]
    await_all(shop_store, others)
    probes = {each["task"] for each in read_effects(effects, "began")} - {str(handle.id) for handle in others}
    assert len(probes) == PROBES, "the bound holds whatever the number of free workers"
    assert len(in_states(handles, State.RUNNABLE)) == 30 - PROBES
    effects.with_name("gate").touch()

    tasks = await_all(shop_store, handles)
    await_state(shop_store, BreakerState.CLOSED)
    assert {task.attempts for task in tasks} == {1}


def test_failed_probes_open_it_again_and_an_operator_can_close_it(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path, windlass: Callable[..., Result]
) -> None:
    effects.with_name("down").touch()
    assert windlass("breaker", "open", "bank", "--create", "--for", "2s").exit_code == 0
    handles = [shop.pay.enqueue() for _ in range(12)]
    node("-n", "2", workers=2)

    until(lambda: breaker(shop_store).opened >= 1, "failed probes have opened it")
    assert breaker(shop_store).state is BreakerState.OPEN
    assert "probes failed" in breaker(shop_store).reason
    assert len([handle for handle in handles if handle.task().attempts]) <= PROBES
    effects.with_name("down").unlink()
    assert windlass("breaker", "close", "bank", "--by", "ann").exit_code == 0

    await_all(shop_store, handles)
    assert [entry.by for entry in shop_store.audit("breaker/bank") if entry.action == "closed"] == ["ann"]
