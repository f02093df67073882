"""Filters of tasks as conditions. `core.query` parses them from text; every store gives the same results.

`Query.matches` decides. The methods that return names, states and times are hints that let a store read fewer tasks;
they never exclude a task that matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.payload import decode_stored
from windlass.core.task import Task
from windlass.core.times import LATEST, Micros, format_duration

_BARE = re.compile(r'[^\s",*\\]+')
_BARE_WORD = re.compile(r'(?!-)[^\s",*\\:~<>=]+')


class Op(StrEnum):
    """A comparison operator."""

    IS = ":"
    """Equals, or matches a pattern."""
    HAS = "~"
    """Contains, ignoring case."""
    OVER = ">"
    AT_LEAST = ">="
    UNDER = "<"
    AT_MOST = "<="

    @property
    def compares(self) -> bool:
        """True for the operators that compare order."""
        return self not in (Op.IS, Op.HAS)


class Pattern(Struct, frozen=True):
    """Text with wildcards: the parts between the stars. A pattern of one part is plain text."""

    parts: tuple[str, ...]

    @property
    def literal(self) -> str | None:
        """The text, if it has no wildcard; else None."""
        return self.parts[0] if len(self.parts) == 1 else None

    def fits(self, text: str) -> bool:
        """Return True if the whole text matches."""
        first, *rest = self.parts
        if not rest:
            return text == first
        *middle, last = rest
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    def within(self, text: str) -> bool:
        """Return True if part of the text matches, ignoring case."""
        return self.within_folded(text.casefold())

    def within_folded(self, text: str) -> bool:
        """Return True if part of a text that is in folded case matches."""
        parts = _fold(self.parts)
        return parts[0] in text if len(parts) == 1 else Pattern(("", *parts, "")).fits(text)


@lru_cache(maxsize=1_000)
def _fold(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


FREE = ""
"""The field of free words."""
TEXT_FIELDS = ("queue", "tenant", "handler", "workflow", "key", "id", "downstream", "error")
NUMBER_FIELDS = ("attempts", "crashes", "losses", "priority")
AGE = "age"
STATE = "state"
ARGS = "args."


class Examined:
    """A task, and what several conditions compare of it, each part computed once."""

    __slots__ = ("_arguments", "_folded", "task")

    def __init__(self, task: Task) -> None:
        self.task = task
        self._folded: dict[str, tuple[str, ...]] = {}
        self._arguments: dict[str, list[Any]] = {}

    def folded(self, field: str) -> tuple[str, ...]:
        """Return the texts of a field in folded case."""
        if field not in self._folded:
            self._folded[field] = tuple(text.casefold() for text in _texts(self.task, field))
        return self._folded[field]

    def arguments(self, field: str) -> list[Any]:
        """Return the values at a path in the arguments."""
        if field not in self._arguments:
            self._arguments[field] = list(_arguments(self.task, field))
        return self._arguments[field]


class Condition(Struct, frozen=True, kw_only=True):
    """A condition that a task must meet, or must not meet if `excluded`."""

    field: str
    op: Op
    values: tuple[Pattern | int | float, ...]
    """Alternatives: one must match. Text is a pattern, a duration is microseconds."""
    excluded: bool = False

    @property
    def searches(self) -> int:
        """The number of searches through the arguments of a task that the condition needs."""
        return len(self.values) if self.field == FREE or self.field.startswith(ARGS) else 0

    def holds(self, seen: Examined, now: Micros) -> bool:
        """Return True if the task meets the condition."""
        return any(self._compared(value, seen, now) for value in self.values) is not self.excluded

    def _compared(self, value: Pattern | float, seen: Examined, now: Micros) -> bool:
        task = seen.task
        if self.field.startswith(ARGS):
            return any(_meets(self.op, each, value) for each in seen.arguments(self.field))
        if isinstance(value, Pattern):
            if self.op is Op.HAS:
                return any(value.within_folded(text) for text in seen.folded(self.field))
            return any(value.fits(text) for text in _texts(task, self.field))
        return _in_order(self.op, now - task.submitted if self.field == AGE else _number(task, self.field), value)

    def __str__(self) -> str:
        bare = _BARE_WORD if self.field == FREE else _BARE
        name = "" if self.field == FREE else f"{self.field}{self.op.value}"
        values = ",".join(self._shown(value, bare) for value in self.values)
        return f"{'-' if self.excluded else ''}{name}{values}"

    def _shown(self, value: Pattern | float, bare: re.Pattern[str]) -> str:
        if isinstance(value, Pattern):
            return "*".join(_quoted(part, bare) for part in value.parts) if value.parts != ("",) else '""'
        return format_duration(int(value)) if self.field == AGE else repr(value)


class Query(Struct, frozen=True):
    """A filter: a task matches if it meets every condition. `str(query)` is equivalent text."""

    conditions: tuple[Condition, ...] = ()

    def matches(self, task: Task, now: Micros) -> bool:
        """Return True if the task matches."""
        seen = Examined(task)
        return all(condition.holds(seen, now) for condition in self.conditions)

    @property
    def searches(self) -> int:
        """The number of searches through the arguments of each task that the filter needs."""
        return sum(condition.searches for condition in self.conditions)

    def __str__(self) -> str:
        return " ".join(map(str, self.conditions))

    def names(self, field: str) -> frozenset[str] | None:
        """Return all values that a text field or the state can have in a matching task; None if that is not known."""
        named: frozenset[str] | None = None
        for each in self.conditions:
            texts = [value.literal for value in each.values if isinstance(value, Pattern)]
            if each.field == field and each.op is Op.IS and not each.excluded and None not in texts:
                these = frozenset(text for text in texts if text is not None)
                named = these if named is None else named & these
        return named

    def submitted(self, now: Micros) -> tuple[Micros, Micros]:
        """Return the interval in which every matching task was submitted: from the first time to before the second."""
        since, before = -LATEST, LATEST + 1
        for each in self.conditions:
            if each.field != AGE or each.excluded:
                continue
            [age] = [int(value) for value in each.values if not isinstance(value, Pattern)]
            match each.op:
                case Op.OVER:
                    before = min(before, now - age)
                case Op.AT_LEAST:
                    before = min(before, now - age + 1)
                case Op.UNDER:
                    since = max(since, now - age + 1)
                case _:
                    since = max(since, now - age)
        return since, before

    @property
    def timed(self) -> bool:
        """True if the result depends on the current time."""
        return any(each.field == AGE for each in self.conditions)


def _texts(task: Task, field: str) -> tuple[str, ...]:
    """Return the values of a field as text. A missing value is empty text."""
    match field:
        case "state":
            return (task.state.value,)
        case "error":
            return (task.reason or "",)
        case "downstream":
            return (task.rules.downstream or "",)
        case "":
            names = (str(task.id), task.handler, task.queue, task.tenant)
            return (*names, task.workflow or "", task.key or "", task.args, task.reason or "")
        case _:
            value: object = getattr(task, field)
            return ("" if value is None else str(value),)


def _number(task: Task, field: str) -> int:
    value: int = getattr(task, field)
    return value


def _arguments(task: Task, field: str) -> Iterator[Any]:
    """Return the values at a path in the arguments. A list stands for its elements unless an index follows."""
    found: list[Any] = [decode_stored(task.args, is_object=True)]
    for step in field.removeprefix(ARGS).split("."):
        found = [below for value in found for below in _below(value, step)]
    for value in found:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _below(value: Any, step: str) -> list[Any]:
    if isinstance(value, dict):
        return [value[step]] if step in value else []
    if not isinstance(value, list):
        return []
    elements = cast("list[Any]", value)
    if step.isdecimal():
        return elements[int(step) :][:1] if len(step) < 10 else []
    return [each[step] for each in elements if isinstance(each, dict) and step in each]


def _meets(op: Op, found: Any, value: Pattern | float) -> bool:
    """Return True if an argument matches. Numbers are compared by value, however they are written."""
    number = found if isinstance(found, int | float) and not isinstance(found, bool) else None
    if not isinstance(value, Pattern):
        return number is not None and _in_order(op, number, value)
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    if _alike(op, text, value):
        return True
    wanted = None if number is None or op is not Op.IS or value.literal is None else as_number(value.literal)
    return wanted is not None and wanted == number


def as_number(text: str) -> int | float | None:
    """Return the text as a number, or None if it is not a plain number."""
    if re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", text):
        return float(text)
    return None


def _alike(op: Op, text: str, pattern: Pattern) -> bool:
    return pattern.within(text) if op is Op.HAS else pattern.fits(text)


def _in_order(op: Op, number: float, bound: float) -> bool:
    match op:
        case Op.OVER:
            return number > bound
        case Op.AT_LEAST:
            return number >= bound
        case Op.UNDER:
            return number < bound
        case Op.AT_MOST:
            return number <= bound
        case _:
            return number == bound


def _quoted(text: str, bare: re.Pattern[str]) -> str:
    """Return text quoted as `parse` reads it back."""
    if not text or bare.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def allowed_states(query: Query) -> frozenset[State]:
    """Return the states that a matching task can be in."""
    allowed = frozenset(State)
    for each in query.conditions:
        if each.field == STATE:
            named = frozenset(State(value.literal) for value in each.values if isinstance(value, Pattern))
            allowed = allowed - named if each.excluded else allowed & named
    return allowed
