from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.builders import a_task, all_tasks, submit_one, task_of
from windlass.core.payload import MAX_BYTES
from windlass.errors import InvalidPayload
from windlass.stores.protocol import Store


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def self_containing() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


BAD = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "nan inside": {"deep": [1, float("nan")]},
    "nul": "a\0b",
    "nul in a key": {"a\0": 1},
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\udfff": 1},
    "too deep": nested(64),
    "contains itself": self_containing(),
    "too large": "x" * MAX_BYTES,
    "bytes": b"raw",
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "decimal": Decimal(1),
    "set": {1, 2},
    "object": object(),
    "class": int,
    "key of number": {1: "one"},
    "key of none": {None: 1},
    "huge integer": 2**63,
    "huge negative integer": -(2**63),
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_an_argument_that_is_not_plain_json_is_refused_by_name(store: Store, value: Any) -> None:
    with pytest.raises(InvalidPayload, match="culprit"):
        store.submit([a_task(), a_task(args={"fine": 1, "culprit": value})])

    assert all_tasks(store) == []


@pytest.mark.parametrize("name", [7, None, b"x", "nul\0", "\ud800"])
def test_an_argument_name_that_is_not_text_is_refused(store: Store, name: Any) -> None:
    with pytest.raises(InvalidPayload, match="args"):
        store.submit([a_task(), a_task(args={name: 1})])

    assert all_tasks(store) == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        False,
        0,
        -0.0,
        1e308,
        2**63 - 1,
        "",
        "'; DROP TABLE task; --",
        "line\nbreak\ttab\x01",
        "\u202eright to left\u200b",
        "𝒲indlass 🪢",
        [],
        {},
        {"": ""},
        {"$secret": "name", "a": {"b": [1, [2, {"c": None}]]}},
        nested(63),
        "x" * (MAX_BYTES - 12),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_plain_json_comes_back_as_it_was_given(store: Store, value: Any) -> None:
    task = task_of(store, submit_one(store, args={"value": value}))

    assert json.loads(task.args) == {"value": value}
