"""Pools: their sizes, queues, weights and slots; recycled workers; tasks that a node cannot run."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, as_given, at, await_effect, read_effects
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


def test_a_worker_is_replaced_after_its_number_of_tasks(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1", "--recycle-after", "5")

    handles = [shop.add.enqueue(number) for number in range(30)]

    assert [handle.result(PATIENCE) for handle in handles] == [number + 1 for number in range(30)]
    ran = read_effects(effects, "add")
    assert len(ran) == 30
    assert max(Counter(each["pid"] for each in ran).values()) == 5
    assert {handle.task().attempts for handle in handles} == {1}


def test_a_worker_that_holds_too_much_memory_is_replaced_between_tasks(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    started = node("-n", "1", "--memory-limit", "200")

    assert shop.grow.enqueue(250).result(PATIENCE) == 1

    started.await_event("WorkerStateChanged", 4)  # idle, draining, stopped, and then the next worker idle
    assert shop.grow.enqueue(1).result(PATIENCE) == 1, "the next worker holds nothing yet"
    first, second = read_effects(effects, "began")
    assert first["pid"] != second["pid"]


def test_signals_resize_every_pool_and_size_0_pauses_it(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "0", workers=0)
    started.await_event("SessionOpened")
    handle = shop.add.enqueue(1)
    assert (handle.state, started.workers()) == (State.RUNNABLE, [])

    started.send(signal.SIGTTIN)
    assert handle.result(PATIENCE) == 2
    started.send(signal.SIGTTIN)
    until(lambda: len(started.workers()) == 2, "it has grown")
    started.send(signal.SIGTTOU)

    until(lambda: len(started.workers()) == 1, "it has shrunk")
    assert shop.add.enqueue(2).result(PATIENCE) == 3


def test_pools_serve_their_own_queues(node: Callable[..., NodeProcess], effects: Path) -> None:
    started = node("--pool", "mail:mail,news=1", "--pool", "cpu=1x2", workers=2)

    by_queue = {queue: shop.sleep.using(queue=queue).enqueue(0) for queue in ("mail", "news", "cpu")}
    unserved = shop.sleep.enqueue(0)
    assert [handle.wait(PATIENCE) for handle in by_queue.values()] == [State.COMPLETED] * 3

    pids = {each["task"]: each["pid"] for each in read_effects(effects, "began")}
    mail, news, cpu = (pids[str(handle.id)] for handle in by_queue.values())
    assert mail == news != cpu
    assert unserved.state is State.RUNNABLE
    assert "no live node serves the queue default" in str(unserved.why())
    pools = {each["pool"]: each["pid"] for each in started.events("WorkerStateChanged")}
    assert pools == {"mail": mail, "cpu": cpu}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_pool_of_its_own_reserves_slots_for_a_queue(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("--pool", "all:bulk,mail=2", "--pool", "reserved:mail=1", workers=3)
    long = [shop.sleep.using(queue="bulk").enqueue(600) for _ in range(4)]
    await_effect(effects, "began", 2)

    mails = [shop.add.using(queue="mail").enqueue(number) for number in range(10)]

    assert [handle.result(PATIENCE) for handle in mails] == list(range(1, 11)), "while bulk has all other slots"
    assert sorted(handle.state for handle in long) == [State.LEASED, State.LEASED, State.RUNNABLE, State.RUNNABLE]


def test_the_queues_of_a_pool_take_turns_by_weight(
    node: Callable[..., NodeProcess], effects: Path, tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("pools: {both: {queues: [a, b], weights: [3, 1], size: 1}, idle: {size: 1, threads: 2}}\n")
    by_queue = {queue: {str(shop.sleep.using(queue=queue).enqueue(0.06).id) for _ in range(12)} for queue in ("a", "b")}

    node("--config", str(config), workers=2)

    first = [each["task"] for each in await_effect(effects, "began", 12)[:12]]
    assert 8 <= len(by_queue["a"].intersection(first)) <= 10


def test_tasks_that_a_node_cannot_run_stay_unclaimed_and_delay_no_others(
    node: Callable[..., NodeProcess], shop_store: Store
) -> None:
    """This happens with two apps that share a queue, and during a rolling deploy."""
    foreign = [receipt.id for receipt in shop_store.submit([NewTask(handler="nobody.knows")] * 3_000)]
    picky = shop.add.using(requires=["gpu"]).enqueue(1)
    wide = shop.add.using(slots=3).enqueue(1)
    plain = [shop.add.enqueue(number) for number in range(20)]

    first = node("-n", "1", "-t", "2")

    assert [handle.result(PATIENCE) for handle in plain] == list(range(1, 21))
    stuck = [shop.app.handle(foreign[0]), picky, wide]
    assert [(handle.state, handle.task().fence) for handle in stuck] == [(State.RUNNABLE, 0)] * 3
    reasons = [str(handle.why().closed) for handle in stuck]
    expected = [
        "registered the handler nobody.knows",
        "lacks the tag gpu",
        "has 2 slots per worker and the task needs 3",
    ]
    assert [text in reason for text, reason in zip(expected, reasons, strict=True)] == [True] * 3, reasons
    node("-n", "1", "-t", "3", "--tag", "gpu")
    assert [picky.result(PATIENCE), wide.result(PATIENCE)] == [2, 2]
    assert first.terminate() == 0
    assert {(task.state, task.fence) for task in shop_store.get(foreign[:10]) if task} == {(State.RUNNABLE, 0)}


def test_a_deadline_pool_takes_the_earliest_deadline_of_all_its_queues(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    for name in ("a", "b"):
        shop_store.configure(Queue(name=name, strategy=Strategy.DEADLINE))
    due = {str(shop.add.using(queue="ab"[n % 2], deadline=f"{100 - n}s").enqueue(n).id): 100 - n for n in range(12)}
    last = shop.add.using(queue="a", deadline="1h").enqueue(1)
    assert "in all queues of its pool" not in str(last.why())

    node("-n", "1", "-Q", "a,b", "--order", "deadline")

    assert last.result(PATIENCE) == 2
    began = [due[each["task"]] for each in read_effects(effects, "add") if each["task"] in due]
    assert began == sorted(due.values())
    waits = shop.add.using(queue="a", delay="1h").enqueue(1)
    assert "with earlier deadlines in all queues of its pool" in str(waits.why())


def test_a_deadline_pool_over_queues_of_another_order_is_refused(url: str, effects: Path, shop_store: Store) -> None:
    shop_store.configure(Queue(name="a", strategy=Strategy.DEADLINE))
    with NodeProcess(as_given(url), effects, "-n", "1", "-Q", "a,b", "--order", "deadline") as node:
        until(lambda: node.process.poll() is not None, "it has exited")

        assert node.process.returncode != 0
        assert "the queue b has the strategy priority; run `windlass queues set b --strategy deadline`" in node.log


def test_a_task_takes_its_number_of_slots(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1", "-t", "4")

    handles = [shop.sleep.using(slots=3).enqueue(0.3) for _ in range(2)]
    assert [handle.wait(PATIENCE) for handle in handles] == [State.COMPLETED] * 2

    begins, ends = (sorted(map(at, read_effects(effects, what))) for what in ("began", "ended"))
    assert begins[1] > ends[0], "six slots do not fit into four"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_all_workers_start_when_their_requests_do_not_fit_into_the_socket(
    node: Callable[..., NodeProcess],
) -> None:
    """About three hundred requests fit while the worker parent is busy. The others wait in the node."""
    node("-n", "350", workers=350)

    assert shop.add.enqueue(1).result(PATIENCE) == 2


def test_a_long_task_does_not_hold_up_what_was_read_ahead_behind_it(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    """Short tasks are read ahead by the hundred. Those behind the long one must not wait for its end."""
    node("-n", "2", workers=2)
    assert {each.wait(PATIENCE) for each in shop.app.enqueue_many(shop.nothing.bind() for _ in range(500))} == {
        State.COMPLETED
    }

    calls = [shop.nothing.bind() for _ in range(1_500)]
    calls.insert(300, shop.gated_once.bind())  # type: ignore[arg-type]
    handles = shop.app.enqueue_many(calls)
    long = handles.pop(300)
    short = {handle.wait(PATIENCE) for handle in handles}
    running = long.state
    effects.with_name("gate").touch()

    assert short == {State.COMPLETED}
    assert running is State.LEASED, "all of them ended while it was running"
    assert long.wait(PATIENCE) is State.COMPLETED
    assert {handle.task().attempts for handle in (*handles, long)} == {1}, "what was taken back is charged nothing"
