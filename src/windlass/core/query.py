"""The filter language: one for CLI, API, URLs, the dashboard and Python.

    state:failed,expired queue:mail -tenant:demo handler:render* args.order.id:42 age>10m error~timeout "free text"

`parse` makes a `Query` of it, which says of any task whether it matches, and `str(query)` is text that means the same.
What cannot be understood is refused with its place and what would be right; nothing else is ever raised. The whole
language is in docs/reference/filters.md.
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

ALIASES = {"task": "handler", "reason": "error"}
"""Other names of fields."""
STATES = {
    **{state.value: state for state in State},
    "dead": State.FAILED,
    "ready": State.RUNNABLE,
    "running": State.LEASED,
    "blocked": State.WAITING,
    "succeeded": State.COMPLETED,
}
"""The words for states, those of other systems too."""
FIELDS = (STATE, *TEXT_FIELDS, *NUMBER_FIELDS, AGE)

_FIELD = re.compile(r'([^\s",*\\:~<>=]+)(>=|<=|[:=~<>])')
_BARE = re.compile(r'[^\s",*]+')


def parse(text: str) -> Query:
    """The query that a text stands for; the empty text means every task. Raises `InvalidFilter`."""
    return Query(tuple(_Reader(text).conditions()))


class _Reader:
    """Goes through the text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def conditions(self) -> list[Condition]:
        """All of them."""
        self._check()
        found: list[Condition] = []
        while self._skip_spaces():
            if len(found) == MOST_CONDITIONS:
                self._refuse(self._at, f"over {MOST_CONDITIONS} conditions; give fewer")
            found.append(self._condition())
        return found

    def _check(self) -> None:
        if len(self._text) > LONGEST_TEXT:
            self._refuse(LONGEST_TEXT, f"over {LONGEST_TEXT:,} characters; give fewer")
        for at, character in enumerate(self._text):
            if character == "\0" or "\ud800" <= character <= "\udfff":
                self._refuse(at, f"{character!r} is in no task; leave it out")

    def _condition(self) -> Condition:
        excluded = self._take("-")
        if excluded and (self._ended() or self._text[self._at].isspace()):
            self._refuse(self._at - 1, "- excludes nothing; write it right before a condition, or quote it as text")
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
        return self._refuse(at, f'unknown field "{name}"; {_meant(name)}or quote all of it to look for it as text')

    def _words(self) -> tuple[Pattern, ...]:
        """Text that stands alone. An operator in it is more likely a mistake than what somebody looks for."""
        start = self._at
        patterns = self._patterns()
        bare = re.sub(r'"(?:\\.|[^"\\])*"', lambda quoted: " " * len(quoted[0]), self._text[start : self._at])
        odd = re.search("[:~<>=]", bare)
        if odd is not None:
            self._refuse(start + odd.start(), f"no field stands before {odd[0]}; give one, or quote it as text")
        if Pattern(("",)) in patterns:
            self._refuse(start, "there is nothing to look for in empty text; leave it out")
        return patterns

    def _values(self, field: str, op: Op) -> tuple[Pattern | int | float, ...]:
        start = self._at
        patterns = self._patterns()
        value = self._kind(field, op, start)
        if op.compares and len(patterns) > 1:
            self._refuse(start, f"{field}{op.value} takes one value, {len(patterns)} are given; leave out the commas")
        return tuple(value(pattern) for pattern in patterns)

    def _kind(self, field: str, op: Op, at: int) -> Callable[[Pattern], Pattern | int | float]:
        """What the values of a field are made of, if the operator fits it."""
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
            self._refuse(at, f'"{"*".join(pattern.parts)}" is no state; give one of {", ".join(State)}')
        return Pattern((state.value,))

    def _age(self, pattern: Pattern, at: int) -> int:
        try:
            age = duration(pattern.literal, AGE)
        except InvalidTask:
            age = None
        if age is None or age > LONGEST:
            self._refuse(at, f'"{"*".join(pattern.parts)}" is no age; give one such as 30s, 10m, 2h or 1d')
        return micros(age)

    def _number(self, field: str, pattern: Pattern, at: int) -> int | float:
        number = as_number(pattern.literal or "")
        if number is None or (field in NUMBER_FIELDS and isinstance(number, float)):
            self._refuse(at, f'"{"*".join(pattern.parts)}" is no number; {field} takes one such as 3')
        return number

    def _id(self, pattern: Pattern, at: int) -> Pattern:
        if pattern.literal is None:
            return Pattern(tuple(part.lower() for part in pattern.parts))
        try:
            return Pattern((str(UUID(pattern.literal)),))
        except ValueError:
            self._refuse(at, f'"{pattern.literal}" is no id; give a whole one, or its beginning with a star: id:0198*')

    def _patterns(self) -> tuple[Pattern, ...]:
        """One value or more, with commas between them."""
        found = [self._pattern()]
        while self._take(","):
            found.append(self._pattern())
            if len(found) > MOST_VALUES:
                self._refuse(self._at, f"over {MOST_VALUES} values; give fewer")
        return tuple(found)

    def _pattern(self) -> Pattern:
        """Bare and quoted pieces and stars, up to the next space or comma."""
        start, parts = self._at, [""]
        while not self._ended() and not self._text[self._at].isspace() and self._text[self._at] != ",":
            if self._take("*"):
                parts.append("")
            elif self._text[self._at] == '"':
                parts[-1] += self._quoted()
            else:
                parts[-1] += self._bare()
        if self._at == start:
            self._refuse(start, 'a value is missing; give one, or "" for what is empty')
        return Pattern(tuple(parts))

    def _bare(self) -> str:
        found = _BARE.match(self._text, self._at)
        assert found is not None, "the caller has looked at the first character"
        self._at = found.end()
        return found[0]

    def _quoted(self) -> str:
        start, piece = self._at, ""
        self._at += 1
        while not self._take('"'):
            self._take("\\")
            if self._ended():
                self._refuse(start, 'this quote is never closed; end it with "')
            piece += self._text[self._at]
            self._at += 1
        return piece

    def _take(self, character: str) -> bool:
        here = self._text.startswith(character, self._at)
        self._at += here
        return here

    def _skip_spaces(self) -> bool:
        """Go to the next condition, if there is one."""
        while not self._ended() and self._text[self._at].isspace():
            self._at += 1
        return not self._ended()

    def _ended(self) -> bool:
        return self._at >= len(self._text)

    def _refuse(self, at: int, fault: str) -> NoReturn:
        raise InvalidFilter(self._text, at, fault)


def _meant(name: str) -> str:
    from difflib import get_close_matches  # Only a mistake needs it.

    close = get_close_matches(name, [*FIELDS, *ALIASES], 1)
    return f"did you mean {close[0]}? " if close else f"give one of {', '.join(FIELDS)}, args.NAME, "


def _fitting(field: str) -> str:
    if field == STATE:
        return "give states, as in state:failed,expired"
    if field == AGE:
        return "compare it, as in age>10m"
    return (
        f"compare it, as in {field}>=3" if field in NUMBER_FIELDS else f"look for text, as in {field}:a* or {field}~a"
    )
