"""`windlass repro`: run the handler of a task in this process."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from windlass.cli.completion import complete_task
from windlass.cli.options import json_options, store_option
from windlass.cli.output import echo, print_json, print_note
from windlass.cli.replay import Replay, import_app, run_again
from windlass.client.app import App
from windlass.client.execution import describe_error
from windlass.config import read_settings
from windlass.core.fingerprint import fingerprint
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Returned
from windlass.core.task import Task
from windlass.errors import NotAllowed
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.presentation import escape_json
from windlass.operations.redact import redact_error, redact_task
from windlass.redaction import redact, redact_text
from windlass.wire.commands import ReproResult
from windlass.wire.tasks import error_shape


@click.command()
@store_option
@json_options
@click.argument("id", shell_complete=complete_task)
@click.argument("app", required=False)
@click.option("--pdb", "debug", is_flag=True, help="Open the debugger where the error was raised.")
def repro(access: Access, form: str | None, id: str, app: str | None, debug: bool) -> None:
    """Run the handler of a task in this process with the same arguments.

    APP is such as shop:app; the default is the app of windlass.yaml. The store is read-only for the handler, but its
    other effects, such as sending a mail, are real. Exit status: 0 the handler returned, 1 it raised.
    """
    target = app or read_settings().app
    if target is None:
        raise click.UsageError("No app. Name it, as in `windlass repro ID shop:app`, or in windlass.yaml.")
    task = access.task(tasks.look_up(access, id).id)
    # Standard output is only for the result.
    with redirect_stdout(sys.stderr):
        program = import_app(target, access.store)
        print_note(f"Running {task.handler} with the arguments of {task.id}. Nothing is written to the store.")
        replay = run_again(program, access.store, task)
    error = _error(replay)
    result = _result(access, program, replay, task)
    _print_result(replay, error, form, task, result, _is_same_bug(access, task, error))
    if debug and replay.error is not None:
        _open_debugger(replay.error)
    raise SystemExit(0 if error is None else 1)


def _error(replay: Replay) -> Error | None:
    """Return the error that the handler raised, or that the engine found around it."""
    if replay.error is not None:
        return describe_error(replay.error)
    return replay.outcome.error if isinstance(replay.outcome, Raised) else None


def _is_same_bug(access: Access, task: Task, error: Error | None) -> bool | None:
    """Return whether the latest failed attempt ended with the same bug; None if no attempt failed."""
    errors = [attempt.error for attempt in tasks.attempts(access, task.id) if attempt.error is not None]
    return None if not errors else error is not None and fingerprint(error) == fingerprint(errors[-1])


def _result(access: Access, app: App, replay: Replay, task: Task) -> Any:
    """Return the result without the secrets that the published handler marks, nor those that this one marks."""
    if not isinstance(replay.outcome, Returned) or replay.outcome.result is None:
        return None
    text = redact_task(replace(task, result=replay.outcome.result), access.catalog).result or "null"
    _, returns = app.handlers[task.handler].signature.schemas()
    return redact(msgspec.json.decode(text), msgspec.json.decode(returns))


def _print_result(
    replay: Replay, error: Error | None, form: str | None, task: Task, result: Any, same: bool | None
) -> None:
    shape = ReproResult(
        task=task.id,
        handler=task.handler,
        attempt=replay.order.attempt,
        returned=error is None,
        result=result,
        error=None if error is None else error_shape(redact_error(error)),
        same_bug=same,
    )
    if print_json(form, shape):
        return
    if error is None:
        echo(escape_json(msgspec.json.encode(result).decode()))
    else:
        print_note(redact_text(_traceback(replay, error)).rstrip())
    for line in _remarks(replay, error, same):
        print_note(line)


def _traceback(replay: Replay, error: Error) -> str:
    """Return the whole traceback; the stored one may be cut."""
    return error.traceback if replay.error is None else "".join(traceback.format_exception(replay.error))


def _remarks(replay: Replay, error: Error | None, same: bool | None) -> list[str]:
    if isinstance(replay.error, NotAllowed):
        return ["The handler tried to write to the store, which is refused here."]
    if error is None:
        return ["The handler returned." + (" The last failed attempt ended with an error." if same is False else "")]
    if same is None:
        return ["The handler raised an error. No earlier attempt did."]
    reproduced = f"Reproduced: the same bug ({fingerprint(error)}) as in the last failed attempt."
    return [reproduced if same else "The handler raised another error than in the last failed attempt."]


def _open_debugger(error: BaseException) -> None:
    import pdb

    pdb.post_mortem(error.__traceback__)
