"""Make the task that replaces one that ended badly, with other arguments. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from windlass.core.limit_keys import make_key
from windlass.core.payload import encode_args, json_object
from windlass.core.references import referenced_ids
from windlass.core.task import NewTask, Task
from windlass.errors import InvalidTask, NotAllowed
from windlass.operations.handler_catalog import check_arguments


def edit_task(
    task: Task, changes: Mapping[str, Any], schema: Mapping[str, Any], template: str | None = None
) -> NewTask:
    """Return a copy of a task with changed arguments. The same change always has the same key.

    Everybody can see the key, so it is made from the change alone: a hash of the other arguments would let readers
    guess the secrets among them. `template` is the key of the limit that its handler declares.
    """
    if not task.state.ended_badly:
        raise NotAllowed(
            f"Task {task.id} is {task.state.value}. Only a failed, cancelled or expired task can be edited."
        )
    args: dict[str, Any] = {**json_object(task.args), **changes}
    check_arguments(task.handler, schema, args)
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
        memory=rules.memory,
        requires=rules.requires,
        downstream=rules.downstream,
        limit=_edit_key(task, args, template),
        max_running=rules.max_running,
        rate=rules.rate,
        trace=rules.trace,
    )


def _edit_key(task: Task, args: Mapping[str, Any], template: str | None) -> str | None:
    """Return the key of its limit for the new arguments, if the key was made from the old ones."""
    if template is None or task.rules.limit is None:
        return task.rules.limit
    try:
        was_declared = make_key(template, json_object(task.args)) == task.rules.limit
    except InvalidTask:
        was_declared = False  # The handler declares another key by now.
    return make_key(template, args) if was_declared else task.rules.limit
