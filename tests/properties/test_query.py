"""Properties of the filter language that hold for any input."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties.queries import PATTERNS, QUERIES
from tests.unit.values import a_stored_task
from windlass.core.filter import allowed_states
from windlass.core.lifecycle import State
from windlass.core.query import FIELDS, Pattern, Query, parse
from windlass.core.task import Task
from windlass.core.times import duration, format_duration, micros
from windlass.errors import InvalidFilter

PIECES = st.sampled_from([*FIELDS, "args.a", ":", "=", "~", ">=", "<", ",", "*", '"', "\\", "-", " ", "10m", "3", "a"])
TASKS = st.builds(
    a_stored_task,
    state=st.sampled_from(State),
    queue=st.sampled_from(["a", "b", "ab"]),
    workflow=st.sampled_from([None, "a", "a b"]),
    priority=st.integers(-9, 9),
    attempts=st.integers(0, 9),
    submitted=st.integers(-(10**14), 0),
    args=st.sampled_from(["{}", '{"a":"ab"}', '{"a":[1,2.5]}', '{"a":{"0":3}}', '{"a":null}']),
)


def parsed(text: str) -> Query | InvalidFilter:
    try:
        return parse(text)
    except InvalidFilter as refused:
        return refused


@given(QUERIES)
def test_what_is_printed_reads_back_as_the_same_query(query: Query) -> None:
    assert parse(str(query)) == query


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
@example("- ")
@example('"')
def test_any_text_is_a_query_or_an_invalid_filter(text: str) -> None:
    answer = parsed(text)

    if isinstance(answer, InvalidFilter):
        assert 0 <= answer.position <= len(text)
    else:
        assert parse(str(answer)) == answer


@given(QUERIES, TASKS)
def test_what_it_says_of_names_states_and_times_leaves_no_match_out(query: Query, task: Task) -> None:
    since, before = query.submitted(0)
    names = {field: query.names(field) for field in ("queue", "tenant", "handler", "workflow", "state")}

    fits = (
        since <= task.submitted < before
        and task.state in allowed_states(query)
        and all(allowed is None or (getattr(task, field) or "") in allowed for field, allowed in names.items())
    )

    assert fits or not query.matches(task, 0)


@given(QUERIES, QUERIES, TASKS)
def test_conditions_side_by_side_must_all_hold(one: Query, other: Query, task: Task) -> None:
    both = Query(one.conditions + other.conditions)

    assert both.matches(task, 0) == (one.matches(task, 0) and other.matches(task, 0))


@given(PATTERNS, st.lists(st.text(max_size=3), min_size=4, max_size=4))
def test_a_pattern_fits_whatever_its_stars_are_filled_with(pattern: Pattern, filling: list[str]) -> None:
    text = pattern.parts[0] + "".join(fill + part for fill, part in zip(filling, pattern.parts[1:], strict=False))

    assert pattern.fits(text)
    assert pattern.within(f"<{text.upper()}>") or text.upper().casefold() != text.casefold()


@given(st.integers(0, 3_650 * 86_400 * 1_000_000))
def test_a_length_of_time_reads_back_exactly_as_it_was(length: int) -> None:
    assert micros(duration(format_duration(length), "age")) == length
