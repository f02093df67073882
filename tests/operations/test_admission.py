"""Tasks with `admit="strict"` are refused if their queue cannot make their deadline."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.builders import MINUTE, SECOND, a_task, submit
from windlass import App, DeadlineUnreachable, InvalidTask
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.settings import Settings
from windlass.clock import ManualClock
from windlass.core.ordering import Queue
from windlass.core.task import NewTask
from windlass.core.times import micros
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.admission import check_admission
from windlass.refused_submits import refused_submits
from windlass.stores.memory import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def serve(store: MemoryStore, *queues: str, workers: int = 2, ended: int = 100, busy: float = 100.0) -> None:
    """Let a node with these workers report that its tasks took a second each."""
    pool = PoolReport(
        queues=queues or ("default",),
        threads=1,
        min=workers,
        max=workers,
        override_max=workers,
        settings=Settings(),
        fixed=True,
        target=workers,
        ready=workers,
        ended=ended,
        busy=busy,
    )
    about = msgspec.json.encode({"queues": pool.queues}).decode()
    session = store.open_session("node", ttl=60 * MINUTE, about=about)
    store.report(session, msgspec.json.encode(NodeReport(pools={"p": pool})).decode())


def a_strict_task(deadline: timedelta = MINUTE, **fields: Any) -> NewTask:
    return a_task(admit="strict", deadline=deadline, **fields)


def refusal(store: MemoryStore, *new: NewTask) -> DeadlineUnreachable:
    with pytest.raises(DeadlineUnreachable) as raised:
        check_admission(store, new)
    return raised.value


def test_a_task_is_refused_if_too_many_are_ahead_of_it(store: MemoryStore) -> None:
    serve(store)
    submit(store, *(a_task(priority=1) for _ in range(100)))

    check_admission(store, [a_strict_task(52 * SECOND)])
    found = refusal(store, a_strict_task(50 * SECOND))

    assert (found.queue, found.ahead, found.rate, found.ends_in, found.slack) == ("default", 100, 2.0, 51.0, 50.0)
    assert str(found) == (
        "Queue 'default' cannot make a deadline in 50.0 s: the task would end in about 51 s, after 100 tasks at 2 "
        "tasks/s. Nothing was written. Retry later, or pass a later deadline."
    )


def test_only_the_tasks_before_it_count(store: MemoryStore) -> None:
    serve(store)
    submit(store, *(a_task() for _ in range(1_000)))

    check_admission(store, [a_strict_task(2 * SECOND, priority=1)])
    assert refusal(store, a_strict_task(2 * SECOND, priority=-1)).ahead == 1_000


def test_other_tasks_without_admission_are_not_checked(store: MemoryStore) -> None:
    submit(store, *(a_task() for _ in range(10)))

    check_admission(store, [a_task(deadline=SECOND)])


def test_other_queues_of_the_pool_take_their_share(store: MemoryStore) -> None:
    serve(store, "default", "other", "empty")
    store.configure(Queue(name="other", weight=3))
    submit(store, *(a_task(priority=1) for _ in range(20)))
    check_admission(store, [a_strict_task(12 * SECOND)])

    submit(store, a_task(queue="other"))

    assert refusal(store, a_strict_task(12 * SECOND)).rate == 0.5


def test_earlier_tasks_of_the_batch_count(store: MemoryStore) -> None:
    serve(store)

    check_admission(store, [a_strict_task(10 * SECOND) for _ in range(19)])
    assert refusal(store, *(a_strict_task(10 * SECOND) for _ in range(20))).ahead == 19


def test_a_task_that_may_not_start_in_time_is_refused(store: MemoryStore, clock: ManualClock) -> None:
    serve(store)
    check_admission(store, [a_strict_task(delay=30 * SECOND)])
    assert refusal(store, a_strict_task(delay=MINUTE)).ends_in == 61.0

    store.configure(Queue(name="default", paused=True, paused_until=clock.now() + micros(30 * SECOND)))
    check_admission(store, [a_strict_task()])
    assert "it is paused until" in str(refusal(store, a_strict_task(20 * SECOND)))
    store.configure(Queue(name="default", paused=True))
    assert "it is paused. " in str(refusal(store, a_strict_task()))


def test_without_workers_a_task_is_refused_and_without_measurements_it_is_not(store: MemoryStore) -> None:
    assert "no worker serves it" in str(refusal(store, a_strict_task()))
    serve(store, "elsewhere")
    assert "no worker serves it" in str(refusal(store, a_strict_task()))

    serve(store, ended=2)
    check_admission(store, [a_strict_task(SECOND)])
    assert "may start in 5.0 s" in str(refusal(store, a_strict_task(SECOND, delay=5 * SECOND)))


def test_workers_over_http_report_no_rate(store: MemoryStore) -> None:
    store.open_session("go-1", about='{"queues":["default"]}')

    check_admission(store, [a_strict_task()])


def test_a_task_that_is_stored_already_is_not_refused(store: MemoryStore) -> None:
    submit(store, a_strict_task(key="k"))

    check_admission(store, [a_strict_task(key="k")])
    refusal(store, a_strict_task(key="other"))


def test_admission_needs_a_deadline(store: MemoryStore) -> None:
    with pytest.raises(InvalidTask, match="admit='strict' needs a deadline") as raised:
        check_admission(store, [a_task(), a_task(admit="strict")])
    assert raised.value.index == 1


def test_every_way_to_submit_checks_it(store: MemoryStore) -> None:
    app = App(store=store)

    @app.task(name="work", admit="strict")
    def work() -> None: ...

    soon = work.using(deadline="10s")
    before = refused_submits.counts()["deadline_unreachable", ""]
    for enqueue in (
        soon.enqueue,
        lambda: asyncio.run(soon.aenqueue()),
        lambda: app.enqueue_many([soon.bind()]),
        lambda: tasks.submit(Access(store), [work.info().new_task({}, {"deadline": 10 * SECOND})]),
    ):
        with pytest.raises(DeadlineUnreachable):
            enqueue()
    with pytest.raises(DeadlineUnreachable), app.workflow("w") as wf:
        wf.add(soon)
    with pytest.raises(InvalidTask, match="needs a deadline"):
        work.enqueue()

    assert store.counts() == []
    assert refused_submits.counts()["deadline_unreachable", ""] == before + 4
    work.using(admit=None).enqueue()
    assert len(store.counts()) == 1
