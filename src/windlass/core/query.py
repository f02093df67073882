"""The filter language: one for CLI, API, URLs, the dashboard and Python.

    state:failed,expired queue:mail -tenant:demo handler:render* args.order.id:42 age>10m error~timeout "free text"

`parse` turns text into a `Query`, which decides whether a task matches; `str(query)` is equivalent text. Text that
cannot be parsed raises `InvalidFilter` with the position and a hint, and nothing else is ever raised. The language is
described in docs/reference/filters.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn
from uuid import UUID

from windlass.core.filter import (
    AGE,
    ARGS,
    FREE,
    NUMBER_FIELDS,
    STATE,
    TEXT_FIELDS,
    Condition,
    Op,
    Pattern,
    Query,
    as_number,
)
from windlass.core.lifecycle import State
from windlass.core.times import LONGEST, duration, micros
from windlass.errors import InvalidFilter, InvalidTask

__all__ = ["ALIASES", "FIELDS", "STATES", "Condition", "Op", "Pattern", "Query", "parse"]

LONGEST_TEXT = 4_000
MOST_CONDITIONS = 50
MOST_VALUES = 200
MOST_VALUES_IN_ALL = 500
MOST_SEARCHES = 50
"""How many values of free text and of `args` a filter may have: each one is a search through all arguments."""

ALIASES = {"task": "handler", "reason": "error"}
"""Aliases of fields."""
STATES = {
    **{state.value: state for state in State},
    "dead": State.FAILED,
    "ready": State.RUNNABLE,
    "running": State.LEASED,
    "blocked": State.WAITING,
    "succeeded": State.COMPLETED,
}
"""The names of states, including those of other systems."""
FIELDS = (STATE, *TEXT_FIELDS, *NUMBER_FIELDS, AGE)

_FIELD = re.compile(r'([^\s",*\\:~<>=]+)(>=|<=|[:=~<>])')
_BARE = re.compile(r'[^\s",*]+')


def parse(text: str) -> Query:
    """Parse a filter. The empty text matches every task. Raise `InvalidFilter` if it is malformed."""
    return Query(tuple(_Reader(text).conditions()))


class _Reader:
    """Reads a filter once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def conditions(self) -> list[Condition]:
        """Return all conditions of the filter."""
        self._check()
        found: list[Condition] = []
        while self._skip_spaces():
            if len(found) == MOST_CONDITIONS:
                self._refuse(self._at, f"over {MOST_CONDITIONS} conditions; use fewer")
            start = self._at
            found.append(self._condition())
            self._check_cost(found, start)
        return found

    def _check_cost(self, found: list[Condition], at: int) -> None:
        """Refuse a filter that would keep the server busy: every value is compared with thousands of tasks."""
        if sum(len(each.values) for each in found) > MOST_VALUES_IN_ALL:
            self._refuse(at, f"over {MOST_VALUES_IN_ALL} values in all conditions; use fewer")
        if sum(each.searches for each in found) > MOST_SEARCHES:
            self._refuse(at, f"over {MOST_SEARCHES} values of free text and args; use fewer")

    def _check(self) -> None:
        if len(self._text) > LONGEST_TEXT:
            self._refuse(LONGEST_TEXT, f"over {LONGEST_TEXT:,} characters; use fewer")
        for at, character in enumerate(self._text):
            if character == "\0" or "\ud800" <= character <= "\udfff":
                self._refuse(at, f"{character!r} cannot occur in a task; leave it out")

    def _condition(self) -> Condition:
        excluded = self._take("-")
        if excluded and (self._ended() or self._text[self._at].isspace()):
            self._refuse(self._at - 1, "- excludes nothing; write it directly before a condition, or quote it as text")
        start = self._at
        head = _FIELD.match(self._text, start)
        if head is None:
            return Condition(field=FREE, op=Op.HAS, values=self._words(), excluded=excluded)
        self._at = head.end()
        field = self._field(head[1], start)
        op = Op.IS if head[2] == "=" else Op(head[2])
        return Condition(field=field, op=op, values=self._values(field, op), excluded=excluded)

    def _field(self, name: str, at: int) -> str:
        field = ALIASES.get(name, name)
        if field in FIELDS or (field.startswith(ARGS) and all(field.split("."))):
            return field
        return self._refuse(at, f'unknown field "{name}"; {_meant(name)}or quote it to search for text')

    def _words(self) -> tuple[Pattern, ...]:
        """Read a free word. An operator inside it is refused, because it is probably a mistake."""
        start = self._at
        patterns = self._patterns()
        bare = re.sub(r'"(?:\\.|[^"\\])*"', lambda quoted: " " * len(quoted[0]), self._text[start : self._at])
        odd = re.search("[:~<>=]", bare)
        if odd is not None:
            self._refuse(start + odd.start(), f"no field before {odd[0]}; add one, or quote it as text")
        if Pattern(("",)) in patterns:
            self._refuse(start, "empty text matches nothing; leave it out")
        return patterns

    def _values(self, field: str, op: Op) -> tuple[Pattern | int | float, ...]:
        start = self._at
        patterns = self._patterns()
        value = self._kind(field, op, start)
        if op.compares and len(patterns) > 1:
            self._refuse(start, f"{field}{op.value} takes one value, {len(patterns)} were given; leave out the commas")
        return tuple(value(pattern) for pattern in patterns)

    def _kind(self, field: str, op: Op, at: int) -> Callable[[Pattern], Pattern | int | float]:
        """Return the value type of a field, or refuse an operator that does not apply to it."""
        numeric = field in NUMBER_FIELDS or (field.startswith(ARGS) and op.compares)
        if field == STATE and op is Op.IS:
            return lambda pattern: self._state(pattern, at)
        if field == AGE and op.compares:
            return lambda pattern: self._age(pattern, at)
        if numeric and op is not Op.HAS:
            return lambda pattern: self._number(field, pattern, at)
        if field == "id" and op is Op.IS:
            return lambda pattern: self._id(pattern, at)
        if (field in TEXT_FIELDS or field.startswith(ARGS)) and not op.compares:
            return lambda pattern: pattern
        return self._refuse(at - len(op.value), f"{field} does not take {op.value}; {_fitting(field)}")

    def _state(self, pattern: Pattern, at: int) -> Pattern:
        state = STATES.get((pattern.literal or "").lower())
        if state is None:
            self._refuse(at, f'"{"*".join(pattern.parts)}" is not a state; use one of {", ".join(State)}')
        return Pattern((state.value,))

    def _age(self, pattern: Pattern, at: int) -> int:
        try:
            age = duration(pattern.literal, AGE)
        except InvalidTask:
            age = None
        if age is None or age > LONGEST:
            self._refuse(at, f'"{"*".join(pattern.parts)}" is not an age; use one such as 30s, 10m, 2h or 1d')
        return micros(age)

    def _number(self, field: str, pattern: Pattern, at: int) -> int | float:
        number = as_number(pattern.literal or "")
        if number is None or (field in NUMBER_FIELDS and isinstance(number, float)):
            self._refuse(at, f'"{"*".join(pattern.parts)}" is not a number; {field} takes one such as 3')
        return number

    def _id(self, pattern: Pattern, at: int) -> Pattern:
        if pattern.literal is None:
            return Pattern(tuple(part.lower() for part in pattern.parts))
        try:
            return Pattern((str(UUID(pattern.literal)),))
        except ValueError:
            self._refuse(at, f'"{pattern.literal}" is not an id; use a full one, or its start and a star: id:0198*')

    def _patterns(self) -> tuple[Pattern, ...]:
        """Read values separated by commas."""
        found = [self._pattern()]
        while self._take(","):
            found.append(self._pattern())
            if len(found) > MOST_VALUES:
                self._refuse(self._at, f"over {MOST_VALUES} values; use fewer")
        return tuple(found)

    def _pattern(self) -> Pattern:
        """Read plain text, quoted text and stars up to the next space or comma."""
        start, parts = self._at, [""]
        while not self._ended() and not self._text[self._at].isspace() and self._text[self._at] != ",":
            if self._take("*"):
                parts.append("")
            elif self._text[self._at] == '"':
                parts[-1] += self._quoted()
            else:
                parts[-1] += self._bare()
        if self._at == start:
            self._refuse(start, 'a value is missing; add one, or "" for an empty value')
        return Pattern(tuple(parts))

    def _bare(self) -> str:
        found = _BARE.match(self._text, self._at)
        assert found is not None, "the caller has checked the first character"
        self._at = found.end()
        return found[0]

    def _quoted(self) -> str:
        start, piece = self._at, ""
        self._at += 1
        while not self._take('"'):
            self._take("\\")
            if self._ended():
                self._refuse(start, 'this quote is not closed; end it with "')
            piece += self._text[self._at]
            self._at += 1
        return piece

    def _take(self, character: str) -> bool:
        here = self._text.startswith(character, self._at)
        self._at += here
        return here

    def _skip_spaces(self) -> bool:
        """Skip to the next condition, if there is one."""
        while not self._ended() and self._text[self._at].isspace():
            self._at += 1
        return not self._ended()

    def _ended(self) -> bool:
        return self._at >= len(self._text)

    def _refuse(self, at: int, fault: str) -> NoReturn:
        raise InvalidFilter(self._text, at, fault)


def _meant(name: str) -> str:
    from difflib import get_close_matches  # Needed only for errors.

    close = get_close_matches(name, [*FIELDS, *ALIASES], 1)
    return f"did you mean {close[0]}? " if close else f"use one of {', '.join(FIELDS)}, args.NAME, "


def _fitting(field: str) -> str:
    if field == STATE:
        return "use states, as in state:failed,expired"
    if field == AGE:
        return "compare it, as in age>10m"
    return f"compare it, as in {field}>=3" if field in NUMBER_FIELDS else f"match text, as in {field}:a* or {field}~a"
