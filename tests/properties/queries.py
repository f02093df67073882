"""Filters and tasks to compare stores with: small worlds, so that a filter often finds something."""

from __future__ import annotations

from hypothesis import strategies as st

from windlass.core.query import Condition, Op, Pattern, Query

WORDS = st.sampled_from(["a", "b", "ab", "Ab", "a b", "", "a:b", '"', "\\", "-a", "*", "ä", "42", "x,y", ">", "\n"])
PATTERNS = st.lists(WORDS | st.text(max_size=3), min_size=1, max_size=3).map(lambda parts: Pattern(tuple(parts)))
STORABLE = PATTERNS.filter(lambda pattern: all(_storable(part) for part in pattern.parts))
NUMBERS = st.integers(-5, 5) | st.floats(-5, 5).map(lambda number: round(number, 2) + 0.0)


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _condition(
    field: str, ops: list[Op], values: st.SearchStrategy[Pattern | int | float]
) -> st.SearchStrategy[Condition]:
    def made(op: Op, several: list[Pattern | int | float], excluded: bool) -> Condition:
        return Condition(field=field, op=op, values=tuple(several[:1] if op.compares else several), excluded=excluded)

    return st.builds(made, st.sampled_from(ops), st.lists(values, min_size=1, max_size=3), st.booleans())


TEXTUAL = [Op.IS, Op.HAS]
ORDERED = [Op.OVER, Op.AT_LEAST, Op.UNDER, Op.AT_MOST]
STATES = st.sampled_from(["waiting", "runnable", "leased", "completed", "failed"]).map(lambda name: Pattern((name,)))

CONDITIONS = st.one_of(
    _condition("", [Op.HAS], STORABLE.filter(lambda pattern: pattern != Pattern(("",)))),
    _condition("state", [Op.IS], STATES),
    *(_condition(field, TEXTUAL, STORABLE) for field in ("queue", "tenant", "handler", "workflow", "key", "error")),
    _condition("args.a", TEXTUAL, STORABLE),
    _condition("args.a.0", ORDERED, NUMBERS),
    _condition("id", [Op.HAS], STORABLE),
    *(_condition(field, [Op.IS, *ORDERED], st.integers(-9, 9)) for field in ("attempts", "priority")),
    _condition("age", ORDERED, st.integers(0, 10**14)),
)
QUERIES = st.lists(CONDITIONS, max_size=5).map(lambda conditions: Query(tuple(conditions)))
