"""A failed task once more with other arguments: which task that is, and whether its handler can take them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from windlass.core.payload import encode_args
from windlass.core.references import referenced_ids
from windlass.core.task import NewTask, Task
from windlass.errors import InvalidTask, NotAllowed
from windlass.operations.handler_catalog import check_arguments

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def edit_task(task: Task, changes: Mapping[str, Any], schema: Mapping[str, Any]) -> NewTask:
    """The task that takes its place: the same but for the arguments. The same change always names the same task."""
    if not task.state.ended_badly:
        raise NotAllowed(f"task {task.id} is {task.state.value}; only one that ended badly is edited")
    args: dict[str, Any] = {**msgspec.json.decode(task.args), **changes}
    check_arguments(task.handler, schema, args)
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in changes:
        _check_kind(name, args[name], properties.get(name, {}))
    rules, text = task.rules, encode_args(args)
    return NewTask(
        handler=task.handler,
        args=args,
        key=f"edit:{task.id}:{task.generation}:{sha256(text.encode()).hexdigest()[:12]}",
        workflow=task.workflow,
        tenant=task.tenant,
        queue=task.queue,
        priority=task.priority,
        # What its arguments are made of has to be there still, and is kept for as long as somebody waits for it.
        prerequisites=tuple(referenced_ids(text)),
        retry=rules.retry,
        max_crashes=rules.max_crashes,
        at_most_once=rules.at_most_once,
        timeout=rules.timeout,
        soft_timeout=rules.soft_timeout,
        heartbeat_timeout=rules.heartbeat_timeout,
        slots=rules.slots,
        requires=rules.requires,
        downstream=rules.downstream,
        trace=rules.trace,
    )


def _check_kind(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Hold a value against what its schema says in plain words; the rest is for the handler to refuse."""
    said: str | list[str] = schema.get("type", [])
    kinds = [said] if isinstance(said, str) else said
    fits = [kind for each in kinds for kind in _KINDS.get(each, (object,))]
    is_bool_for_number = isinstance(value, bool) and bool not in fits and object not in fits
    if kinds and (is_bool_for_number or not isinstance(value, tuple(fits))):
        raise InvalidTask(
            f"args.{name}={value!r} is not {' or '.join(kinds)}; "
            f"on the command line text is {name}=…, other JSON {name}:=…"
        )
