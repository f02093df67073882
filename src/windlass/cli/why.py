"""`windlass why`: explain why a task is not running."""

from __future__ import annotations

import click

from windlass.cli.completion import complete_task
from windlass.cli.options import json_options, store_option
from windlass.cli.output import echo, print_json
from windlass.core.lifecycle import State
from windlass.core.why import Why
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.wire.tasks import why_shape

WILL_RUN, WAITS, CANNOT_RUN = 0, 3, 4

MANUAL_GATES = frozenset({"queue", "tenant", "handler", "node", "pool"})
"""Gates that only a person opens: resume the queue, the tenant or the pool, publish the handler, start a node."""


@click.command()
@store_option
@json_options
@click.argument("id", shell_complete=complete_task)
def why(access: Access, form: str | None, id: str) -> None:
    """Explain why a task is not running.

    Exit status: 0 the task will run or did run, 3 it waits, 4 it cannot run until a person acts.
    """
    found = tasks.why(access, tasks.look_up(access, id).id)
    if not print_json(form, why_shape(found)):
        echo(str(found))
    raise SystemExit(exit_status(found))


def exit_status(why: Why) -> int:
    """Return the exit status for the gate that holds a task back."""
    if why.task.state is State.COMPLETED or why.closed is None:
        return WILL_RUN
    if why.task.state.final or why.closed.name in MANUAL_GATES:
        return CANNOT_RUN
    return WAITS
