"""The examples of docs/reference/filters.md find the tasks that the page lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.values import a_stored_task
from windlass.core.lifecycle import State
from windlass.core.query import ALIASES, FIELDS, STATES, parse
from windlass.core.task import Task
from windlass.core.times import duration, micros
from windlass.errors import InvalidFilter

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "filters.md").read_text()
NOW = 10**15


def table(*head: str) -> list[list[str]]:
    """Return the cells of the rows below a header, without backticks."""
    _, rest = PAGE.split(f"| {' | '.join(head)} |\n", 1)
    rows = rest.split("\n\n", 1)[0].splitlines()[1:]
    cells = [[cell.strip() for cell in row.removeprefix("|").removesuffix("|").split("|")] for row in rows]
    assert all(len(row) == len(head) for row in cells)
    return [[re.sub(r"^`(.*)`$", r"\1", cell) for cell in row] for row in cells]


def tasks() -> list[Task]:
    head = ("key", "handler", "queue", "tenant", "workflow", "state", "attempts", "age", "arguments", "error")
    return [
        a_stored_task(
            key=key,
            handler=handler,
            queue=queue,
            tenant=tenant,
            workflow=workflow or None,
            state=State(state),
            attempts=int(attempts),
            submitted=NOW - micros(duration(age, "age")),
            args=arguments,
            reason=error or None,
        )
        for key, handler, queue, tenant, workflow, state, attempts, age, arguments, error in table(*head)
    ]


@pytest.mark.parametrize(("text", "finds"), [row[:2] for row in table("filter", "finds", "because")])
def test_an_example_finds_the_tasks_that_the_page_lists(text: str, finds: str) -> None:
    query = parse(text)

    assert [task.key for task in tasks() if query.matches(task, NOW)] == finds.split()
    assert parse(str(query)) == query


@pytest.mark.parametrize(("text", "error"), table("filter", "error"))
def test_an_invalid_filter_has_the_error_of_the_page(text: str, error: str) -> None:
    with pytest.raises(InvalidFilter, match=re.escape(error)):
        parse(text)


def test_the_first_example_of_the_page_is_a_filter() -> None:
    [example] = re.findall(r"^    (state:.*)$", PAGE, re.MULTILINE)

    assert str(parse(example)) == example


def test_the_page_lists_every_field_and_every_state_name() -> None:
    documented = set(re.findall(r"`([a-z]+)`", PAGE.split("## Examples")[0]))

    assert {*FIELDS, *ALIASES, *STATES} <= documented
