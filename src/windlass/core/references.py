"""References: `{"$result": "<task id>"}` inside a task's arguments stands for that task's result.

Whoever builds a workflow writes them, the node replaces them when the task runs. They are found in the JSON text by
decoding it, and only when the mark is in the text at all, so a task without them pays for one substring test.
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
"""How large arguments may be once the results they refer to stand in them."""

_QUOTED = f'"{REFERENCE_KEY}"'


def reference(task: UUID) -> dict[str, str]:
    """What stands in the arguments for this task's result."""
    return {REFERENCE_KEY: str(task)}


def referenced_ids(args: str) -> list[TaskId]:
    """The tasks whose results these arguments (JSON text) need, each once."""
    if _QUOTED not in args:
        return []
    found: dict[TaskId, None] = {}
    _collect(msgspec.json.decode(args), found)
    return list(found)


def with_results(args: str, results: Mapping[TaskId, str | None]) -> str:
    """The arguments with each reference replaced by the result (JSON text) of its task; None reads as null."""
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
            f"args: more than {MAX_RESOLVED_BYTES:,} bytes with the results they refer to; "
            "return references to larger data instead of the data"
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
        # The result is put in as it is stored, byte for byte: a Decimal written as a number keeps its digits.
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
