"""`windlass repro`: that attempt here, with the same arguments; nothing is written back."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from typing import Any

import click
import msgspec
from msgspec import to_builtins

from windlass.cli.completion import complete_task
from windlass.cli.output import form_options, print_json_form, print_note
from windlass.cli.replay import Ran, imported, run
from windlass.cli.stores import opened, store_option
from windlass.cli.task_selection import task_of
from windlass.client.execution import describe_error
from windlass.config import read_settings
from windlass.core.fingerprint import fingerprint
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Returned
from windlass.core.task import Task
from windlass.errors import NotAllowed
from windlass.redaction import redact, redact_text
from windlass.stores.protocol import Store
from windlass.wire.shapes import error_shape


@click.command()
@store_option
@form_options
@click.argument("id", shell_complete=complete_task)
@click.argument("app", required=False)
@click.option("--pdb", "debug", is_flag=True, help="Stop in the debugger where it was raised.")
def repro(store_url: str | None, form: str | None, id: str, app: str | None, debug: bool) -> None:
    """Run a task's handler here, in this process, with the same arguments, and show how it ends.

    APP is as in shop:app, or what windlass.yaml says. Nothing is written to the store, and a handler that tries to is
    refused; but whatever else it does, such as sending a mail, it does. Exit status: 0 it returned, 1 it raised.
    """
    target = app or read_settings().app
    if target is None:
        raise click.UsageError("no app: name it, as in `windlass repro ID shop:app`, or in windlass.yaml")
    store = opened(store_url)
    task = task_of(store, id)
    # What the handler prints is talk: standard output is for the result alone.
    with redirect_stdout(sys.stderr):
        program = imported(target, store)
        print_note(f"{task.handler} runs here, with the arguments of {task.id}; nothing is written to the store")
        ran = run(program, store, task)
    error = _error(ran)
    _tell(ran, error, form, task, _seen_before(store, task, error))
    if debug and ran.error is not None:
        _stop_at(ran.error)
    raise SystemExit(0 if error is None else 1)


def _error(ran: Ran) -> Error | None:
    """What went wrong: as the handler raised it, or as the engine found it around the handler."""
    if ran.error is not None:
        return describe_error(ran.error)
    return ran.outcome.error if isinstance(ran.outcome, Raised) else None


def _seen_before(store: Store, task: Task, error: Error | None) -> bool | None:
    """Whether this is the bug with which the latest failed attempt ended; None when none has."""
    errors = [attempt.error for attempt in store.attempts(task.id) if attempt.error is not None]
    return None if not errors else error is not None and fingerprint(error) == fingerprint(errors[-1])


def _tell(ran: Ran, error: Error | None, form: str | None, task: Task, same: bool | None) -> None:
    text = ran.outcome.result if isinstance(ran.outcome, Returned) else None
    result: Any = None if text is None else redact(msgspec.json.decode(text))
    whole = {
        "task": task.id,
        "handler": task.handler,
        "attempt": ran.order.attempt,
        "returned": error is None,
        "result": result,
        "error": None if error is None else to_builtins(error_shape(error)),
        "same_bug": same,
    }
    if print_json_form(form, whole):
        return
    if error is None:
        click.echo(msgspec.json.encode(result).decode())
    else:
        print_note(redact_text(_traceback(ran, error)).rstrip())
    for line in _remarks(ran, error, same):
        print_note(line)


def _traceback(ran: Ran, error: Error) -> str:
    """All of it, where the stored one is cut."""
    return error.traceback if ran.error is None else "".join(traceback.format_exception(ran.error))


def _remarks(ran: Ran, error: Error | None, same: bool | None) -> list[str]:
    if isinstance(ran.error, NotAllowed):
        return ["it came as far as its first write to the store, which is refused here"]
    if error is None:
        return ["it returned; the attempt before ended with an error" if same is False else "it returned"]
    if same is None:
        return ["it raised; no attempt before did"]
    told = f"reproduced: the same bug ({fingerprint(error)}) as the attempt before"
    return [told if same else "it raised, but another error than the attempt before"]


def _stop_at(error: BaseException) -> None:
    import pdb

    pdb.post_mortem(error.__traceback__)
