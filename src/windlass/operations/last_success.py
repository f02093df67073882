"""Compares a task with the last one of the same handler that completed. Stored values are compared, none is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.payload import canonical, json_object
from windlass.core.task import Task, TaskId
from windlass.operations.access import Access
from windlass.operations.argument_fields import show_value
from windlass.operations.redact import redact_task
from windlass.operations.tasks import find_stored
from windlass.stores.protocol import Filter

FIELDS = ("queue", "tenant", "priority")


class Difference(Struct, frozen=True, kw_only=True):
    """A field that differs, without secrets. A value is None if the task has no such argument."""

    field: str
    here: str | None
    there: str | None
    hidden: bool
    """True if only secrets differ, so that both sides read the same."""


class Comparison(Struct, frozen=True, kw_only=True):
    """The newest task of the same handler that completed, and how a task differs from it."""

    task: Task
    differences: list[Difference]


def compare_with_last_success(access: Access, id: TaskId) -> Comparison | None:
    """Compare a task with the newest one of the same handler that completed; None if there is none."""
    task = access.task(id)
    found = find_stored(access, Filter(handler=task.handler, states=frozenset({State.COMPLETED})), limit=1).tasks
    if not found:
        return None
    other = found[0]
    shown, shown_other = redact_task(task, access.catalog), redact_task(other, access.catalog)
    differences = _compare(
        (json_object(task.args), json_object(shown.args)), (json_object(other.args), json_object(shown_other.args))
    )
    for field in FIELDS:
        here, there = str(getattr(task, field)), str(getattr(other, field))
        if here != there:
            differences.append(Difference(field=field, here=here, there=there, hidden=False))
    return Comparison(task=shown_other, differences=differences)


Args = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Arguments as they are stored, and without secrets."""


def _compare(here: Args, there: Args) -> list[Difference]:
    return [
        _describe(name, here, there)
        for name in sorted(here[0].keys() | there[0].keys())
        if _encode(here[0], name) != _encode(there[0], name)
    ]


def _describe(name: str, here: Args, there: Args) -> Difference:
    sides = [show_value(shown[name]) if name in shown else None for _, shown in (here, there)]
    hidden = _encode(here[1], name) == _encode(there[1], name)
    if sides[0] == sides[1] and not hidden:  # The text "1" and the number.
        sides = [msgspec.json.encode(shown[name]).decode() for _, shown in (here, there)]
    return Difference(field=f"args.{name}", here=sides[0], there=sides[1], hidden=hidden)


def _encode(args: Mapping[str, Any], name: str) -> bytes | None:
    return canonical(args[name]) if name in args else None
