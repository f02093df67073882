"""The task that replaces an edited one, and its key, which everybody can see."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tests.support.builders import MINUTE, in_state, task_of
from windlass.core.lifecycle import State
from windlass.core.task import Rate, Rules, Task
from windlass.operations.edit_task import edit_task
from windlass.stores.memory import MemoryStore


def failed(**args: Any) -> Task:
    store = MemoryStore()
    task = task_of(store, in_state(store, State.FAILED))
    return replace(task, args=msgspec.json.encode(args).decode())


def test_the_key_says_nothing_about_arguments_that_were_not_changed() -> None:
    one = failed(to="ann", password="hunter2")
    other = replace(one, args='{"to":"ann","password":"hunter3"}')

    assert edit_task(one, {"to": "bob"}, {}).key == edit_task(other, {"to": "bob"}, {}).key


def test_equal_changes_have_equal_keys_and_others_do_not() -> None:
    task = failed(a=0, b=0)
    same = [
        edit_task(task, changes, {}).key
        for changes in ({"a": {"x": 1, "y": 2}, "b": 2}, {"b": 2, "a": {"y": 2, "x": 1}})
    ]
    others = [
        edit_task(task, {"a": 1}, {}).key,
        edit_task(replace(task, generation=task.generation + 1), {"a": {"x": 1, "y": 2}, "b": 2}, {}).key,
    ]

    assert len(set(same)) == 1
    assert len({*same, *others}) == 3


def test_the_key_of_the_limit_follows_the_arguments() -> None:
    task = failed(customer=1, n=0)
    limited = replace(task, rules=Rules(limit="customer:1", max_running=2, rate=Rate(5, MINUTE), memory=7))

    other = edit_task(limited, {"customer": 2}, {}, "customer:{customer}")
    own = edit_task(replace(limited, rules=replace(limited.rules, limit="mine")), {"customer": 2}, {}, "c:{customer}")
    undeclared = edit_task(limited, {"customer": 2}, {})

    assert (other.limit, other.max_running, other.rate, other.memory) == ("customer:2", 2, Rate(5, MINUTE), 7)
    assert (own.limit, undeclared.limit) == ("mine", "customer:1")
