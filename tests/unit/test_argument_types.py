from __future__ import annotations

from typing import Any

import pytest

from tests.unit.values import an_id
from windlass.core.argument_types import find_type_error
from windlass.core.references import reference
from windlass.errors import InvalidTask
from windlass.operations.handler_catalog import check_arguments

INTEGER = {"type": "integer"}
TEXTS = {"type": "array", "items": {"type": "string"}}
OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (2, INTEGER),
        (2.0, INTEGER),
        (2, {"type": "number"}),
        (True, {"type": "boolean"}),
        (None, OPTIONAL),
        (["a"], TEXTS),
        ({"x": 1}, {"type": "object"}),
        ("red", {"enum": ["red", "blue"]}),
        (1.5, {"type": "string", "format": "decimal"}),
        ("2", {"$ref": "#/$defs/Model"}),
        ("2", {}),
        ("2", {"type": ["string", "null"]}),
        (reference(an_id(1)), INTEGER),
        ([reference(an_id(1)), "a"], TEXTS),
    ],
)
def test_a_value_of_the_right_type_is_accepted(value: Any, schema: dict[str, Any]) -> None:
    assert find_type_error("x", value, schema) is None


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        ("two", INTEGER, "x='two' is not an integer"),
        (True, INTEGER, "x=True is not an integer"),
        (1.5, INTEGER, "x=1.5 is not an integer"),
        (7, {"type": "string"}, "x=7 is not text"),
        ("7", OPTIONAL, "x='7' is not an integer or null"),
        (["a", 7], TEXTS, "is not a list in which each item is text"),
        ("green", {"enum": ["red", "blue"]}, "x='green' is not one of 'red', 'blue'"),
        ([], {"type": "object"}, "x=[] is not an object"),
    ],
)
def test_a_value_of_another_type_is_named(value: Any, schema: dict[str, Any], text: str) -> None:
    error = find_type_error("x", value, schema)

    assert error is not None
    assert text in error


@pytest.mark.parametrize(
    "schema",
    [None, 7, "x", [], {"type": 7}, {"type": ["integer", 7]}, {"anyOf": 7}, {"anyOf": []}, {"enum": "x"}, {"items": 7}],
)
def test_a_malformed_schema_refuses_nothing(schema: object) -> None:
    assert find_type_error("x", "two", schema) is None


def test_wrong_types_are_refused_before_the_task_is_stored() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}, "copies": INTEGER}, "required": ["to"]}

    check_arguments("mail", schema, {"to": "ann", "copies": 2})
    with pytest.raises(InvalidTask, match=r"copies='2' is not an integer.*name:=JSON"):
        check_arguments("mail", schema, {"to": "ann", "copies": "2"})
