"""`windlass enqueue`: submit one task by its handler's name, checked against what the app's nodes have published."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import msgspec

from windlass.cli.completion import complete_handler
from windlass.cli.output import form_options, print_json_form
from windlass.cli.shapes import task_json
from windlass.cli.stores import opened, store_option
from windlass.client.app import App
from windlass.client.handle import Handle
from windlass.client.options import task_fields
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo
from windlass.core.times import duration
from windlass.errors import InvalidTask
from windlass.operations.handler_catalog import HandlerCatalog


@click.command()
@click.argument("handler", shell_complete=complete_handler)
@click.argument("args", nargs=-1)
@store_option
@form_options
@click.option("--queue", help="Where it waits.  [default: the handler's own]")
@click.option("--priority", type=int)
@click.option("--in", "delay", metavar="TIME", help="Run it after so long, as in 5m.")
@click.option("--at", metavar="MOMENT", help="Run it at this moment, as in 2026-11-15T06:00+01:00.")
@click.option("--deadline", metavar="WHEN", help="When it should be done: a time from now, or a moment.")
@click.option("--expires", metavar="WHEN", help="When it is no longer wanted.")
@click.option("--tenant")
@click.option("--key", help="Your own id for it: submitting it twice makes one task.")
@click.option("--workflow")
@click.option("--after", multiple=True, metavar="ID", help="What must be completed before: ids or keys. Repeatable.")
@click.option("--retries", type=int)
@click.option("--max-crashes", type=int, help="Run it again after so many deaths of its worker process.  [default: 2]")
@click.option("--at-most-once", is_flag=True, default=None, help="Fail it instead of running it a second time.")
@click.option("--timeout", metavar="TIME")
@click.option("--wait", is_flag=True, help="Wait for its end and print the result.")
@click.option("--wait-timeout", metavar="TIME", help="Stop waiting after so long (exit status 7).")
@click.option("--unchecked", is_flag=True, help="Take a handler that no node has published yet.")
def enqueue(
    handler: str,
    args: Sequence[str],
    store_url: str | None,
    form: str | None,
    wait: bool,
    wait_timeout: str | None,
    unchecked: bool,
    **options: Any,
) -> None:
    """Submit one task of HANDLER.

    ARGS are name=text, name:=JSON, or @file.json with an object of them.
    """
    store = opened(store_url)
    offers = HandlerCatalog(store)
    info = HandlerInfo(name=handler) if unchecked else offers.info(handler)
    given = arguments(args)
    if not unchecked:
        offers.check(handler, given)
    new = info.new_task(given, task_fields(_given(options), {}))
    [receipt] = store.submit([new])
    app = App(store=store)
    handle = app.handle(receipt.id)
    if wait:
        handle.wait(None if wait_timeout is None else duration(wait_timeout, "wait_timeout").total_seconds())
    _report(handle, offers, created=receipt.created, waited=wait, form=form)


def _report(handle: Handle[Any], offers: HandlerCatalog, *, created: bool, waited: bool, form: str | None) -> None:
    task = handle.task()
    if form is not None:
        print_json_form(form, {**task_json(task, offers), "created": created})
    elif waited:
        click.echo(task.result if task.state is State.COMPLETED else f"{task.state}: {task.reason}")
    else:
        click.echo(str(task.id))
    if waited and task.state is not State.COMPLETED:
        raise SystemExit(1)


def arguments(words: Sequence[str]) -> dict[str, Any]:
    """What words such as name=text, name:=JSON and @file.json say, by name."""
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("@"):
            found.update(_file(word[1:]))
            continue
        name, sign, value = word.partition("=")
        if not sign:
            raise InvalidTask(f"argument {word!r} is not name=text, name:=JSON or @file.json")
        found[name.removesuffix(":")] = _json(value, name[:-1]) if name.endswith(":") else value
    return found


def _file(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise InvalidTask(f"argument @{name} cannot be read: {error.strerror}") from error
    value = _json(text, f"@{name}")
    if not isinstance(value, dict):
        raise InvalidTask(f"argument @{name} is not a JSON object of arguments by name")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON's keys are text


def _json(text: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidTask(f"argument {name} is not JSON: {error}") from error


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the Python API takes them."""
    found = {name: value for name, value in options.items() if value not in (None, ())}
    for name in ("at", "deadline", "expires"):
        if name in found:
            found[name] = _when(found[name], name)
    if "after" in found:
        found["after"] = [_prerequisite(text) for text in found["after"]]
    return found


def _prerequisite(text: str) -> UUID | str:
    """A task by its id, or by its key in the same workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text


def _when(text: str, name: str) -> Any:
    """A moment as people write it: ISO 8601, in this machine's zone if it names none; or a time from now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return duration(text, name)
    return moment if moment.tzinfo is not None else moment.astimezone()
