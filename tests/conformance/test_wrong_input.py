"""Every store refuses a value of the wrong type with the same error and stores nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.builders import a_task, all_tasks, submit_one, task_of
from tests.support.wrong_values import CASES, WRONG, Hostile, Label, shown
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import Change, NewTask
from windlass.errors import InvalidTask, WindlassError
from windlass.stores.protocol import Filter, Store


def test_every_field_of_a_task_has_wrong_values_to_try() -> None:
    assert WRONG.keys() == set(NewTask.__struct_fields__)


def test_a_field_of_the_wrong_type_is_refused_by_name_and_stores_nothing(store: Store) -> None:
    for field, value in CASES:
        with pytest.raises(InvalidTask) as refused:
            store.submit([a_task(), a_task(**{field: value})])

        assert field in str(refused.value) or field == "args", (field, shown(value))
        assert "\n" not in str(refused.value)
    assert all_tasks(store) == []


@pytest.mark.parametrize(
    "tasks", [None, 7, "abc", a_task(), {"handler": "work"}, [{"handler": "work"}], [None], ["work"], iter([]), [[]]]
)
def test_anything_but_a_list_of_tasks_is_refused(store: Store, tasks: Any) -> None:
    with pytest.raises(InvalidTask, match="NewTask"):
        store.submit(tasks)

    assert all_tasks(store) == []


def test_other_forms_that_mean_the_same_are_accepted(store: Store) -> None:
    class Named(NewTask, frozen=True):
        pass

    first = submit_one(store, key="first")
    other = submit_one(
        store, requires=["gpu", "ssd"], prerequisites={"first", first}, on_failure="run", args={"n": (1, 2)}
    )
    [receipt] = store.submit((Named(handler="work"),))

    assert task_of(store, other).rules.requires == ("gpu", "ssd")
    assert task_of(store, other).waiting == 1
    assert task_of(store, receipt.id).handler == "work"


@pytest.mark.parametrize("field", ["handler", "queue", "tenant", "key", "workflow", "downstream", "trace"])
def test_text_of_an_enumeration_counts_as_its_value(store: Store, field: str) -> None:
    task = task_of(store, submit_one(store, **{field: Label.MAIL}))

    found = getattr(task.rules if field in ("downstream", "trace") else task, field)
    assert (type(found), found) == (str, "mail")


def test_prerequisites_and_labels_of_an_enumeration_count_as_their_values(store: Store) -> None:
    submit_one(store, key="mail")

    task = task_of(store, submit_one(store, prerequisites=[Label.MAIL], requires=[Label.MAIL]))

    assert (task.waiting, task.rules.requires) == (1, ("mail",))


ID = uuid4()
FILTER: Any = Filter
CALLS: dict[str, Callable[[Any], Any]] = {
    "cancel with one id": lambda s: s.cancel(ID, reason="x"),
    "cancel with text": lambda s: s.cancel("ab", reason="x"),
    "cancel with ids as text": lambda s: s.cancel([str(ID)], reason="x"),
    "cancel with nothing": lambda s: s.cancel(None, reason="x"),
    "cancel with a wrong reason": lambda s: s.cancel([ID], reason=7),
    "cancel with a wrong grace": lambda s: s.cancel([ID], reason="x", grace="5s"),
    "cancel with wrong entries": lambda s: s.cancel([ID], reason="x", entries="abc"),
    "cancel with entries that are none": lambda s: s.cancel([ID], reason="x", entries=[{"subject": "a"}]),
    "cancel with a wrong filter": lambda s: s.cancel(FILTER(queue=7), reason="x"),
    "retry with text": lambda s: s.retry("failed"),
    "purge with a number": lambda s: s.purge(7),
    "find by text": lambda s: s.find("state:failed"),
    "find one state": lambda s: s.find(FILTER(states="failed")),
    "find states as text": lambda s: s.find(FILTER(states={"failed"})),
    "find by a query as text": lambda s: s.find(FILTER(query="state:failed")),
    "find a wrong number": lambda s: s.find(Filter(), limit="10"),
    "find True": lambda s: s.find(Filter(), limit=True),
    "get one id": lambda s: s.get(ID),
    "get text": lambda s: s.get("ab"),
    "get ids as text": lambda s: s.get([str(ID)]),
    "attempts of text": lambda s: s.attempts("ab"),
    "logs of text": lambda s: s.logs("ab"),
    "progress of text": lambda s: s.progress_of(["ab"]),
    "latest output of text": lambda s: s.latest_output(["ab"]),
    "neighbourhood of text": lambda s: s.neighbourhood("ab"),
    "ahead of text": lambda s: s.ahead("ab"),
    "update text": lambda s: s.update("ab", Change(priority=1)),
    "update with a dict": lambda s: s.update(ID, {"priority": 1}),
    "open a numbered workflow": lambda s: s.open_workflow(7),
    "open with a wrong tenant": lambda s: s.open_workflow("w", tenant=7),
    "open half sealed": lambda s: s.open_workflow("w", sealed="no"),
    "open with a wrong limit": lambda s: s.open_workflow("w", forward=60),
    "seal a numbered workflow": lambda s: s.seal_workflow(7),
    "seal with a wrong flag": lambda s: s.seal_workflow("w", missing="no"),
    "pause a numbered cron": lambda s: s.pause_cron(7, True),
    "remove a numbered cron": lambda s: s.remove_cron(7),
    "remove a numbered queue": lambda s: s.remove_queue(7),
    "pause with a wrong flag": lambda s: s.pause_cron("c", "no"),
    "configure a dict": lambda s: s.configure({"name": "q"}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_call_with_the_wrong_type_is_refused_in_words(store: Store, call: Callable[[Store], Any]) -> None:
    with pytest.raises(WindlassError) as refused:
        call(store)

    assert isinstance(refused.value, InvalidTask)


def test_a_change_of_the_wrong_type_is_refused_and_changes_nothing(store: Store) -> None:
    id = submit_one(store)
    before = task_of(store, id)

    for field in ("priority", "deadline", "at", "expires"):
        for value in [value for value in WRONG[field] if value is not None]:
            with pytest.raises(InvalidTask, match=field):
                store.update(id, Change(**{field: value}))

    assert task_of(store, id) == before


WRONG_SETTINGS: dict[str, list[Any]] = {
    "name": [None, 7, "", "a b", Hostile()],
    "strategy": ["priority", None, 7],
    "horizon": [None, 60, "1h", timedelta(days=-1), timedelta.max],
    "step": [None, 60, "1m", timedelta.max],
    "paused": ["no", None, 1],
    "paused_by": [7],
    "paused_why": [7],
    "max_waiting": ["10", 1.5, True, -1, 2**63, float("inf")],
    "paused_until": ["10", 1.5, True, -1, 2**63],
    "weight": ["2", None, True, 0, 1.5],
    "fair": ["no", None],
}


def test_wrong_settings_of_a_queue_are_refused_by_name(store: Store) -> None:
    assert WRONG_SETTINGS.keys() == set(Queue.__struct_fields__)
    for field, values in WRONG_SETTINGS.items():
        for value in values:
            with pytest.raises(InvalidTask, match="queue" if field == "name" else field):
                store.configure(Queue(**{"name": "q", field: value}))
    assert store.queues() == []


def test_right_settings_and_filters_are_accepted(store: Store) -> None:
    store.configure(Queue(name="q", strategy=Strategy.FIFO, max_waiting=0, weight=2))
    id = submit_one(store)

    assert [task.id for task in store.find(Filter(states=frozenset([State.RUNNABLE]), queue="default")).tasks] == [id]
    assert store.get((id, UUID(int=1)))[1] is None
