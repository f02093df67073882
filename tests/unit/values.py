"""Values of `core` for its unit tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Task, TaskId

OOPS = Error(kind="ValueError", message="oops", traceback="Traceback: …")


def an_id(number: int) -> TaskId:
    return TaskId(UUID(int=number))


def a_stored_task(**changes: Any) -> Task:
    """A task as a store knows it, leased unless it says otherwise."""
    fields: dict[str, Any] = {
        "id": an_id(1),
        "handler": "work",
        "args": "{}",
        "state": State.LEASED,
        "queue": "default",
        "tenant": "default",
        "due": 0,
        "submitted": 0,
    }
    return Task(**{**fields, **changes})
