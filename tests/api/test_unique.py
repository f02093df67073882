"""`unique_for` and `debounce` in the Python API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import windlass
from windlass.core.manifest import HandlerInfo
from windlass.core.task import Unique
from windlass.errors import InvalidTask
from windlass.stores.memory import MemoryStore


@pytest.fixture
def app() -> windlass.App:
    return windlass.App(store=MemoryStore())


def test_a_handle_says_whether_its_task_is_new(app: windlass.App) -> None:
    @app.task(unique_for="10m", unique_key="user:{user}")
    def report(user: int, reason: str = "") -> None: ...

    first, second, other = report.enqueue(1), report.enqueue(1, "again"), report.enqueue(2)
    keyed = [report.using(unique_for=None, key="k").enqueue(1) for _ in range(2)]
    many = app.enqueue_many([report.bind(3), report.bind(3, reason="b"), report.bind(1)])

    assert second.id == first.id
    assert [each.created for each in (first, second, other)] == [True, False, True]
    assert [each.created for each in keyed] == [True, False]
    assert [each.created for each in many] == [True, False, False]
    assert app.handle(first.id).created is None


@pytest.mark.anyio
async def test_debounce_replaces_arguments_if_asked(app: windlass.App) -> None:
    @app.task(debounce="5s", unique_key="document:{document}")
    def index(document: int, text: str) -> None: ...

    first = await index.aenqueue(1, "a")
    await index.aenqueue(1, "b")
    kept = first.task().args
    await index.using(replace_args=True).aenqueue(1, "c")

    assert (kept, first.task().args) == ({"document": 1, "text": "a"}, {"document": 1, "text": "c"})
    assert first.state is windlass.State.SCHEDULED


def test_options_are_merged_and_published(app: windlass.App) -> None:
    @app.task(unique_for="1m", unique_key="n:{n}")
    def work(n: int) -> None: ...

    longer = work.using(unique_for="1h").fields["unique"]
    put_off = work.using(debounce=2.5, max_wait="1m").fields["unique"]
    info: HandlerInfo = work.info()

    assert longer == Unique(key="n:{n}", period=timedelta(hours=1))
    assert (put_off.debounce, put_off.max_wait) == (timedelta(seconds=2.5), timedelta(minutes=1))
    assert info.new_task({"n": 4}).unique == Unique(key="n:4", period=timedelta(minutes=1))
    assert work.using(unique_for=None).fields["unique"] is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"unique_key": "k"}, "unique_key"),
        ({"max_wait": "1m"}, "max_wait"),
        ({"replace_args": True}, "replace_args"),
        ({"unique_for": None, "unique_key": "k"}, "unique_for=None"),
        ({"unique_for": "soon"}, "unique_for="),
        ({"unique_for": "1m", "unique_key": "n:{m}"}, "unique_key="),
        ({"unique_for": "1m", "unique_key": "n:{"}, "unique_key="),
        ({"debounce": "1m", "max_wait": "1s"}, "max_wait="),
        ({"unique_for": "1m", "replace_args": True}, "replace_args"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_written(
    app: windlass.App, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidTask, match=named):

        @app.task(**options)
        def work(n: int) -> None: ...


def test_a_step_of_a_workflow_cannot_be_unique(app: windlass.App) -> None:
    @app.task(unique_for="1m")
    def work(n: int) -> None: ...

    with pytest.raises(InvalidTask, match="pass unique_for=None"), app.workflow("w") as wf:
        wf.add(work, 1)

    with app.workflow("w") as wf:
        wf.add(work.using(unique_for=None), 1)
