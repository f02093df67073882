"""The Python API raises clear errors for values of the wrong type, at the call."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from windlass import App, NewTask, Retry, Scheduler
from windlass.config import InvalidSettings
from windlass.errors import InvalidTask
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter
from windlass.worker.embedded import make_settings


@pytest.fixture
def app() -> App:
    return App(store=MemoryStore())


def work(n: int = 0) -> int:
    return n


WRONG_OPTIONS: dict[str, list[Any]] = {
    "queue": [7, None, "a b", ["mail"]],
    "priority": [True, 1.5, "5", None],
    "tenant": [7, None, ""],
    "retries": ["x", True, 1.5, None, -1],
    "retry": [None, 3, {"retries": 3}, Retry(retries="x")],  # pyright: ignore[reportArgumentType]
    "timeout": ["soon", True, [], -1, 0, float("nan"), timedelta.max],
    "soft_timeout": ["soon", True, -1],
    "heartbeat_timeout": ["soon", True, -1],
    "slots": ["2", True, 0, -1, 1.5, None],
    "requires": ["gpu", None, 7, {"gpu": 1}, [None], ["a b"]],
    "downstream": [7, "", "a b"],
}
WRONG_CALLER_OPTIONS: dict[str, list[Any]] = {
    **WRONG_OPTIONS,
    "deadline": ["soon", True, datetime(2030, 1, 1), 1_900_000_000, float("nan")],  # noqa: DTZ001 - naive on purpose
    "expires": ["soon", True, datetime(2030, 1, 1), 1_900_000_000],  # noqa: DTZ001 - naive on purpose
    "at": ["soon", True, datetime(2030, 1, 1), 1_900_000_000],  # noqa: DTZ001 - naive on purpose
    "delay": ["soon", True, datetime(2030, 1, 1, tzinfo=UTC)],
    "key": [7, "", b"k", ["k"]],
    "workflow": [7, ""],
    "after": ["ab", None, 7, {"a": 1}, [None], [7], [""]],
    "on_failure": ["stop", None, 7],
}


@pytest.mark.parametrize(("option", "values"), WRONG_OPTIONS.items(), ids=WRONG_OPTIONS)
def test_a_wrong_option_of_a_handler_raises_an_error_at_registration(app: App, option: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidTask, match=option):
            app.task(**{option: value})(work)
        with pytest.raises(InvalidTask, match=option):
            app.cron("* * * * *", **{option: value})(work)

    assert not app.handlers


@pytest.mark.parametrize(("option", "values"), WRONG_CALLER_OPTIONS.items(), ids=WRONG_CALLER_OPTIONS)
def test_a_wrong_option_of_a_call_raises_an_error_and_stores_nothing(app: App, option: str, values: list[Any]) -> None:
    handler = app.task(work)
    named = "prerequisites|after" if option == "after" else option
    for value in values:
        with pytest.raises(InvalidTask, match=named):
            handler.using(**{option: value}).enqueue(1)
        with pytest.raises(InvalidTask, match=named):
            app.enqueue_many([handler.using(**{option: value}).bind(1)])
        if option not in ("tenant", "workflow"):  # A workflow gives its steps its own.
            with pytest.raises(InvalidTask, match=named):
                app.workflow("w").add(handler.using(**{option: value}), 1)

    assert app.store.find(Filter()).tasks == []


SCHEDULER: Any = Scheduler
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "a text as function": lambda app, _: app.task("mail"),
    "a number as function": lambda app, _: app.task(name="mail")(7),
    "an empty name": lambda app, _: app.task(name="")(work),
    "a numbered name": lambda app, _: app.task(name=7)(work),
    "a schedule that is a number": lambda app, _: app.cron(7),
    "a zone that is a number": lambda app, _: app.cron("* * * * *", tz=1),
    "a misfire that is unknown": lambda app, _: app.cron("* * * * *", misfire=["last"]),
    "a cron with a numbered name": lambda app, _: app.cron("* * * * *", name=7),
    "a cron with a list of arguments": lambda app, _: app.cron("* * * * *", args=[1]),
    "a workflow with a numbered name": lambda app, _: app.workflow(7),
    "a workflow with a wrong tenant": lambda app, _: app.workflow("w", tenant=7),
    "a step that is a function": lambda app, _: app.workflow("w").add(work),
    "a step after text": lambda app, handler: app.workflow("w").add(handler, after="ab"),
    "a step after one step": lambda app, handler: app.workflow("w").add(handler, after=handler.enqueue()),
    "a step after nothing": lambda app, handler: app.workflow("w").add(handler, after=None),
    "a step with a numbered key": lambda app, handler: app.workflow("w").add(handler, key=7),
    "a step with an empty key": lambda app, handler: app.workflow("w").add(handler, key=""),
    "a step with an unknown policy": lambda app, handler: app.workflow("w").add(handler, on_failure="stop"),
    "a handle of text": lambda app, _: app.handle("abc"),
    "a handle of a number": lambda app, _: app.handle(7),
    "many of a number": lambda app, _: app.enqueue_many(7),
    "many tasks": lambda app, _: app.enqueue_many([NewTask(handler="work")]),
    "many handles": lambda app, handler: app.enqueue_many([handler.enqueue()]),
    "an update to True": lambda _, handler: handler.enqueue().update(priority=True),
    "an update to a naive time": lambda _, handler: handler.enqueue().update(deadline=datetime(2030, 1, 1)),  # noqa: DTZ001
    "an update to a timestamp": lambda _, handler: handler.enqueue().update(deadline=1_900_000_000),
    "a cancel without a reason": lambda _, handler: handler.enqueue().cancel(reason=7),
    "a wait for text": lambda _, handler: handler.enqueue().wait("soon"),
    "a scheduler's dict": lambda _, __: SCHEDULER().add_tasks([{"id": 1}]),
    "a scheduler's number": lambda _, __: SCHEDULER().add_tasks(7),
    "a scheduler's priority": lambda _, __: SCHEDULER().add_tasks(NewTask(id=1, priority=True)),
    "a scheduler's prerequisites": lambda _, __: SCHEDULER().add_tasks(NewTask(id=1, prerequisites="ab")),
    "a scheduler's number of prerequisites": lambda _, __: SCHEDULER().add_tasks(NewTask(id=1, prerequisites=7)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_call_with_the_wrong_type_raises_a_clear_error(app: App, call: Callable[[App, Any], Any]) -> None:
    handler = app.task(name="handler")(work)

    with pytest.raises(InvalidTask) as refused:
        call(app, handler)

    assert str(refused.value)
    assert set(app.handlers) == {"handler"}


def test_prerequisites_of_a_call_may_come_from_any_iterable(app: App) -> None:
    handler = app.task(work)
    handles = [handler.enqueue(n) for n in range(3)]

    last = handler.using(after=(handle for handle in handles)).enqueue(3)

    assert last.task().waiting == 3


def test_a_retry_policy_and_a_number_of_retries_can_be_combined(app: App) -> None:
    handler = app.task(retry=Retry(cap=timedelta(minutes=1)), retries=7)(work)

    assert handler.enqueue().task().rules.retry == Retry(retries=7, cap=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nope": 1}, "Unknown option 'nope'"),
        ({"tags": "gpu"}, "tags='gpu' is not a list. Use tags=['gpu']."),
        ({"queues": "mail"}, "queues='mail' is not a list. Use queues=['mail']."),
        ({"pools": 3}, "pools=3 is not a list"),
        ({"size": "2"}, "size='2' is not an integer"),
        ({"name": 3}, "name=3 is not a str"),
        ({"on_event": 3}, "on_event=3 is not callable"),
    ],
)
def test_an_embedded_node_rejects_invalid_options(app: App, options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, InvalidSettings), match=re.escape(text)):
        make_settings(app, cast("Any", options))
