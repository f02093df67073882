"""Make the task that replaces one that ended badly, with other arguments. Pure."""

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
    """Return a copy of a task with changed arguments. The same change always has the same key.

    Everybody can see the key, so it is made from the change alone: a hash of the other arguments would let readers
    guess the secrets among them.
    """
    if not task.state.ended_badly:
        raise NotAllowed(
            f"Task {task.id} is {task.state.value}. Only a failed, cancelled or expired task can be edited."
        )
    args: dict[str, Any] = {**msgspec.json.decode(task.args), **changes}
    check_arguments(task.handler, schema, args)
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in changes:
        _check_kind(name, args[name], properties.get(name, {}))
    rules, text = task.rules, encode_args(args)
    change = sha256(msgspec.json.encode(changes, order="deterministic")).hexdigest()[:12]
    return NewTask(
        handler=task.handler,
        args=args,
        key=f"edit:{task.id}:{task.generation}:{change}",
        workflow=task.workflow,
        tenant=task.tenant,
        queue=task.queue,
        priority=task.priority,
        # Results that its arguments refer to must still exist; prerequisites are kept while a task waits for them.
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
    """Check a value against the plain types of its schema. The handler checks the rest."""
    types: str | list[str] = schema.get("type", [])
    kinds = [types] if isinstance(types, str) else types
    fits = [kind for each in kinds for kind in _KINDS.get(each, (object,))]
    is_bool_for_number = isinstance(value, bool) and bool not in fits and object not in fits
    if kinds and (is_bool_for_number or not isinstance(value, tuple(fits))):
        raise InvalidTask(
            f"args.{name}={value!r} is not {' or '.join(kinds)}. "
            f"On the command line, write text as {name}=… and other JSON as {name}:=…"
        )
