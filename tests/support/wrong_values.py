"""Values of the wrong type for every field that callers write, and arbitrary ones for property tests."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo
from enum import Enum
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from windlass.core.retry import ErrorRule, Retry
from windlass.core.task import Unique


class NoOffset(tzinfo):
    """A time zone that does not know its offset: a datetime with it is as good as naive."""

    def utcoffset(self, dt: datetime | None, /) -> None:
        return None


class Label(str, Enum):  # noqa: UP042 - the older form, whose str() is the member's name
    """Text that formats as something else."""

    MAIL = "mail"


class Hostile:
    """A value whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


NAN = float("nan")
NOT_TEXT: list[Any] = [7, 1.5, True, b"mail", ["mail"], {"a": 1}, Hostile()]
NOT_A_NUMBER: list[Any] = ["2", 1.5, True, None, [1], NAN, Hostile()]
NOT_A_MOMENT: list[Any] = [
    0,
    1.5,
    NAN,
    "tomorrow",
    date(2030, 1, 1),
    datetime(2030, 1, 1),  # noqa: DTZ001 - naive on purpose
    datetime(2030, 1, 1, tzinfo=NoOffset()),
    timedelta.max,
    [],
    Hostile(),
]
NOT_A_LENGTH: list[Any] = [0, 30, "30s", NAN, True, timedelta(0), timedelta(seconds=-1), timedelta.max, [], Hostile()]

WRONG: dict[str, list[Any]] = {
    "handler": [None, "", "a b", *NOT_TEXT],
    "args": [None, [1], "n=1", 5, [("n", 1)], {1: 2}, {"n": {1}}, {"n": NAN}, {Label.MAIL: 1}, Hostile()],
    "id": ["mine", 7, Hostile()],
    "key": ["", *NOT_TEXT],
    "workflow": ["", *NOT_TEXT],
    "tenant": [None, "", "a b", *NOT_TEXT],
    "queue": [None, "", "a/b", *NOT_TEXT],
    "priority": [10**9, *NOT_A_NUMBER],
    "deadline": NOT_A_MOMENT,
    "delay": [datetime(2030, 1, 1), *NOT_A_MOMENT],  # noqa: DTZ001 - naive on purpose
    "at": NOT_A_MOMENT,
    "expires": NOT_A_MOMENT,
    "prerequisites": [None, 0, "", "ab", b"ab", {"a": 1}, (x for x in "ab"), [None], [7], [""], [["a"]], Hostile()],
    "on_failure": [None, "stop", 7, True, ["run"], Hostile()],
    "retry": [
        None,
        3,
        "3",
        {"retries": 3},
        Retry(retries="x"),  # pyright: ignore[reportArgumentType]
        Retry(retries=True),
        Retry(retries=1.5),  # pyright: ignore[reportArgumentType]
        Retry(retries=-1),
        Retry(base=10),  # pyright: ignore[reportArgumentType]
        Retry(cap=None),  # pyright: ignore[reportArgumentType]
        Retry(rules="KeyError"),  # pyright: ignore[reportArgumentType]
        Retry(rules=("KeyError",)),  # pyright: ignore[reportArgumentType]
        Retry(rules=(ErrorRule(error=7),)),  # pyright: ignore[reportArgumentType]
        Retry(rules=(ErrorRule(error="K*", retries="x"),)),  # pyright: ignore[reportArgumentType]
        Retry(rules=(ErrorRule(error="K*", base=1),)),  # pyright: ignore[reportArgumentType]
    ],
    "timeout": NOT_A_LENGTH,
    "soft_timeout": NOT_A_LENGTH,
    "heartbeat_timeout": NOT_A_LENGTH,
    "slots": [0, -1, 1001, *NOT_A_NUMBER],
    "max_crashes": [-1, 1001, *(value for value in NOT_A_NUMBER if value is not None)],
    "at_most_once": [0, 1, "no", None, []],
    "requires": [None, "", "gpu", b"gpu", 7, {"gpu": 1}, (x for x in ["gpu"]), ["a b"], [7], [None], Hostile()],
    "downstream": ["", "a b", *NOT_TEXT],
    "trace": ["", *NOT_TEXT],
    "unique": [
        "10m",
        7,
        True,
        Hostile(),
        Unique(period=timedelta(seconds=-1)),
        Unique(key=""),
    ],
    "memory": [0, -1, 2**60, "2", 1.5, True, [1], NAN, Hostile()],
    "limit": ["", "k" * 201, "k", *NOT_TEXT],
    "max_running": [-1, 1, "2", 1.5, True, [1], NAN, Hostile()],
    "rate": ["10/1m", 10, True, [1], Hostile()],
    "raise_prerequisites": [None, 0, 1, "no", [], Hostile()],
    "admit": ["", "yes", 7, True, ["strict"], Hostile()],
    "wait": ["", "1h", 7, True, {}, [], Hostile()],
    "origin": ["", 7, True, {}, [], UUID(int=7), Hostile()],
}
"""By field of `NewTask`."""

CASES = [(field, value) for field, values in WRONG.items() for value in values]


def shown(value: object) -> str | None:
    """Return a test id for a value."""
    return None if isinstance(value, Hostile) else type(value).__name__


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
"""Anything that a program might have at hand by mistake."""
