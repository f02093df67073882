"""Arguments and results: which values round-trip by annotation, and the errors of the others."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from windlass import App, InvalidPayload, InvalidTask, TaskFailed
from windlass.testing import drain


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    at: datetime


class Line(msgspec.Struct):
    points: list[Point]


@attrs.define
class Box:
    size: Decimal


class Model(pydantic.BaseModel):
    when: datetime
    tags: set[str] = set()


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 3),
        (float, 2.5),
        (str, "naïve"),
        (bool, True),
        (bytes, b"\x00\xff"),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (datetime, NOON),
        (date, date(2026, 11, 15)),
        (timedelta, timedelta(seconds=90)),
        (Colour, Colour.RED),
        (Point, Point(1, NOON)),
        (Line, Line([Point(1, NOON)])),
        (Box, Box(Decimal("0.30"))),
        (Model, Model(when=NOON, tags={"a"})),
        (Model | None, None),
        (list[Point], [Point(1, NOON)]),
        (dict[int, str], {1: "a"}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (int | None, None),
        (Any, {"a": [1, None, "b"]}),
    ],
    ids=str,
)
def test_a_value_round_trips_by_its_annotation(app: App, annotation: Any, value: Any) -> None:
    seen: list[Any] = []

    def echo(value: Any) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": annotation, "return": annotation}
    handle = app.task(echo).enqueue(value)
    drain(app)

    assert seen == [value]
    assert type(seen[0]) is type(value)
    assert handle.result(0) == value


@pytest.mark.parametrize(
    ("annotation", "value", "says"),
    [
        (int, "3", "value: Expected `int`, got `str`"),
        (int, True, "value: Expected `int`, got `bool`"),
        (datetime, 3, "value: Expected `datetime`, got `int`"),
        (Point, {"x": 1}, "value: Object missing required field `at`"),
        (list[int], [1, "b"], "value: Expected `int`, got `str`"),
        (Model, {"when": "never"}, "value: 1 validation error for Model"),
        (float, float("nan"), "value: nan is not valid JSON"),
        (Opaque, Opaque(), "value cannot be stored as JSON: a value of type Opaque has no JSON form"),
        (Any, Opaque(), "value: a Opaque cannot be encoded as JSON"),
        (Any, NOON, "value: a datetime cannot be encoded as JSON"),
        (Any, {"deep": {"$result": "x"}}, 'value: a dict with the key "$result"'),
        (dict[str, Any], {"$result": "x"}, 'value: a dict with the key "$result"'),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_raises_an_error_with_the_argument_name(
    app: App, annotation: Any, value: Any, says: str
) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": annotation}
    handler = app.task(take)

    with pytest.raises(InvalidPayload) as refusal:
        handler.enqueue(value)
    assert str(refusal.value).startswith(says)
    assert app.store.counts() == []


def test_a_call_that_does_not_fit_the_signature_fails_as_it_would_in_python(app: App) -> None:
    @app.task
    def send(to: str, /, subject: str = "", *, urgent: bool = False) -> None: ...

    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        send.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="too many positional"):
        send.enqueue("a", "b", "c")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        send.enqueue("a", colour=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="multiple values"):
        send.enqueue("a", "b", subject="c")  # type: ignore[misc]  # pyright: ignore[reportCallIssue]


def test_every_kind_of_parameter_reaches_the_handler(app: App) -> None:
    calls: list[Any] = []

    @app.task
    def gather(first: int, /, second: int = 2, *rest: int, named: str = "n", **others: float) -> None:
        calls.append((first, second, rest, named, others))

    gather.enqueue(1)
    gather.enqueue(1, 5, 6, 7, named="m", z=0.5)
    drain(app)

    assert calls == [(1, 2, (), "n", {}), (1, 5, (6, 7), "m", {"z": 0.5})]


def test_an_annotation_that_does_not_exist_at_run_time_raises_an_error_with_its_name(app: App) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": "Missing"}
    handler = app.task(take)

    with pytest.raises(InvalidTask, match="cannot resolve the annotation 'Missing' of 'value'"):
        handler.enqueue(1)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Opaque(), "result: a Opaque cannot be encoded as JSON"),
        (float("inf"), "result: inf is not valid JSON"),
        ("x" * 300_000, "result: 300,002 bytes of JSON; at most 262,144"),
    ],
    ids=["opaque", "infinite", "large"],
)
def test_a_result_that_cannot_be_stored_fails_the_task_with_a_reason(app: App, value: Any, says: str) -> None:
    @app.task
    def give():
        return value

    handle = give.enqueue()
    assert drain(app) == 1

    with pytest.raises(TaskFailed) as failure:
        handle.result(0)
    assert says in str(failure.value.reason)


def test_arguments_that_no_longer_fit_the_handler_fail_the_task_without_a_retry(app: App) -> None:
    @app.task(name="job")
    def before(number: int) -> None: ...

    handle = before.enqueue(1)
    later = App(store=app.store)

    @later.task(name="job")
    def after(text: str) -> None: ...

    assert drain(later) == 1
    assert "The arguments do not fit the handler: text: the handler requires this argument" in str(handle.task().reason)


def test_the_schemas_in_the_manifest_describe_arguments_and_result(app: App) -> None:
    @app.task
    def draw(line: Line, width: int = 1) -> Box:
        """Draw a line."""
        raise NotImplementedError

    [info] = app.manifest().handlers
    schema = msgspec.json.decode(info.parameters)

    assert schema["required"] == ["line"]
    assert schema["properties"]["width"] == {"type": "integer"}
    assert schema["$defs"]["Point"]["required"] == ["x", "at"]
    assert msgspec.json.decode(info.returns)["$ref"] == "#/$defs/Box"
    assert info.doc == "Draw a line."


@pytest.mark.parametrize(
    "value", [{"$secret": "stripe"}, {"$ref": "#/x"}, "${STRIPE_KEY}", "{{ config }}", "!!python/x"]
)
def test_arguments_that_look_like_references_arrive_as_they_are(
    app: App, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    """Nothing in an argument is looked up, evaluated or expanded, in the worker or before."""
    monkeypatch.setenv("STRIPE_KEY", "sk_live")

    @app.task
    def echo(given: Any) -> Any:
        return given

    handle = echo.enqueue(value)
    drain(app)

    assert handle.result() == value
