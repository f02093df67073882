"""References: `{"$result": "<task id>"}` in a task's arguments stands for the result of another task.

The builder of a workflow writes them, and the node replaces them when the task runs. The arguments are decoded only if
they contain the mark, so a task without references costs one substring test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import msgspec

from windlass.core.task import TaskId
from windlass.errors import InvalidPayload

REFERENCE_KEY = "$result"
MAX_RESOLVED_BYTES = 1024 * 1024
"""The largest size of arguments after references are replaced by results."""

_QUOTED = f'"{REFERENCE_KEY}"'


def reference(task: UUID) -> dict[str, str]:
    """Return the reference to the result of this task."""
    return {REFERENCE_KEY: str(task)}


def referenced_ids(args: str) -> list[TaskId]:
    """Return the ids that these arguments (JSON text) refer to, each once."""
    if _QUOTED not in args:
        return []
    found: dict[TaskId, None] = {}
    _collect(msgspec.json.decode(args), found)
    return list(found)


def with_results(args: str, results: Mapping[TaskId, str | None]) -> str:
    """Return the arguments with each reference replaced by its task's result (JSON text). None becomes null."""
    if _QUOTED not in args:
        return args
    size = len(args)
    for task in referenced_ids(args):
        size += len(results.get(task) or "null")
        _check_size(size)
    text = msgspec.json.encode(_filled(msgspec.json.decode(args), results))
    _check_size(len(text))
    return text.decode()


def _check_size(size: int) -> None:
    if size > MAX_RESOLVED_BYTES:
        raise InvalidPayload(
            f"args: more than {MAX_RESOLVED_BYTES:,} bytes after references are replaced by results. "
            "Return a reference to large data instead of the data."
        )


def _collect(value: Any, found: dict[TaskId, None]) -> None:
    if isinstance(value, dict):
        task = _named(cast("dict[str, Any]", value))
        if task is not None:
            found[task] = None
            return
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        for member in cast("list[Any]", value):
            _collect(member, found)


def _filled(value: Any, results: Mapping[TaskId, str | None]) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        task = _named(members)
        if task is None:
            return {name: _filled(member, results) for name, member in members.items()}
        # The result is inserted byte for byte, so that a Decimal written as a number keeps its digits.
        return msgspec.Raw((results.get(task) or "null").encode())
    if isinstance(value, list):
        return [_filled(member, results) for member in cast("list[Any]", value)]
    return value


def _named(members: Mapping[str, Any]) -> TaskId | None:
    if len(members) != 1 or not isinstance(members.get(REFERENCE_KEY), str):
        return None
    try:
        return TaskId(UUID(members[REFERENCE_KEY]))
    except ValueError:
        return None
