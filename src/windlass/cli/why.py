"""`windlass why`: what holds a task back, and by the exit status whether waiting will help."""

from __future__ import annotations

import click

from windlass.cli.completion import complete_task
from windlass.cli.output import form_options, print_json_form
from windlass.cli.stores import opened, store_option
from windlass.cli.task_selection import task_of
from windlass.core.lifecycle import State
from windlass.core.why import Why
from windlass.operations.explain import explain
from windlass.redaction import redact_text
from windlass.wire.shapes import why_shape

WILL_RUN, WAITS, CANNOT_RUN = 0, 3, 4

BY_HAND = frozenset({"queue", "handler", "node", "pool"})
"""The gates that only a person opens: by resuming the queue or the pool, offering the handler, starting a node."""


@click.command()
@store_option
@form_options
@click.argument("id", shell_complete=complete_task)
def why(store_url: str | None, form: str | None, id: str) -> None:
    """Say what holds a task back. Exit status: 0 it will run or did, 3 it waits, 4 it cannot run as things stand."""
    store = opened(store_url)
    answer = explain(store, task_of(store, id))
    if not print_json_form(form, why_shape(answer)):
        click.echo(redact_text(str(answer)))
    raise SystemExit(status(answer))


def status(answer: Why) -> int:
    """What the gate at which a task stands means for it: time opens it, or a person must."""
    if answer.task.state is State.COMPLETED or answer.closed is None:
        return WILL_RUN
    if answer.task.state.final or answer.closed.name in BY_HAND:
        return CANNOT_RUN
    return WAITS
