"""`windlass enqueue`: submit one task by the name of its handler."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import msgspec

from windlass.cli.completion import complete_handler
from windlass.cli.options import (
    at_option,
    deadline_option,
    expires_option,
    json_options,
    new_store_option,
    parse_when,
    priority_option,
    queue_option,
    tenant_option,
    unchecked_option,
    wait_timeout_option,
    workflow_option,
)
from windlass.cli.output import echo, print_json, print_note
from windlass.client.app import App
from windlass.client.options import task_fields
from windlass.core.lifecycle import State
from windlass.core.times import duration
from windlass.errors import InvalidTask
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.presentation import escape_json
from windlass.wire.tasks import receipt_shape, task_shape


@click.command()
@click.argument("handler", shell_complete=complete_handler)
@click.argument("args", nargs=-1)
@new_store_option
@json_options
@queue_option
@priority_option
@click.option("--in", "delay", metavar="TIME", help="Run after this time, such as 5m.")
@at_option
@deadline_option
@expires_option()
@tenant_option
@click.option("--key", help="Your own id: submitting it twice creates one task.")
@workflow_option
@click.option("--after", multiple=True, metavar="ID", help="Prerequisite: a task id or a key. Repeatable.")
@click.option("--retries", type=int, help="How often to retry after an error.")
@click.option("--max-crashes", type=int, help="How often to run again after its worker process died.  [default: 2]")
@click.option("--at-most-once", is_flag=True, default=None, help="Fail the task instead of running it a second time.")
@click.option("--timeout", metavar="TIME", help="Stop an attempt after this time.")
@click.option("--slots", type=int, help="How many slots of a worker it takes.  [default: 1]")
@click.option("--memory", type=int, metavar="BYTES", help="How much of its pool's memory it needs.")
@click.option("--limit-key", "limit", metavar="KEY", help="Key of a limit that tasks declare, such as customer:7.")
@click.option(
    "--raise-prerequisites/--keep-prerequisites",
    default=None,
    help="Whether prerequisites inherit its priority and deadline.  [default: yes]",
)
@click.option("--admit", type=click.Choice(["strict"]), help="Refuse the task if its queue cannot make the deadline.")
@click.option("--max-running", type=int, help="How many tasks may run at once.")
@click.option("--max-rate", "rate", metavar="N/TIME", help="How many tasks may start, such as 100/1m or 5/s.")
@click.option("--unique-for", metavar="TIME", help="Create no second task while an equal one is queued, or this long.")
@click.option("--unique-key", metavar="KEY", help="What equal tasks have in common.  [default: all arguments]")
@click.option("--debounce", metavar="TIME", help="Start this long after the latest equal submit.")
@click.option("--max-wait", metavar="TIME", help="How long equal submits may put it off.  [default: 10 x --debounce]")
@click.option("--replace-args", is_flag=True, default=None, help="With --debounce, run with the latest arguments.")
@click.option("--wait", is_flag=True, help="Wait until the task ends and print its result.")
@wait_timeout_option
@unchecked_option
def enqueue(
    handler: str,
    args: Sequence[str],
    access: Access,
    form: str | None,
    wait: bool,
    wait_timeout: str | None,
    unchecked: bool,
    **options: Any,
) -> None:
    """Submit one task.

    ARGS are name=text, name:=JSON, or @file.json with a JSON object of arguments. With --wait, --json prints the task
    instead of the receipt.
    """
    fields = task_fields(_parse_options(options), {})
    new = tasks.new_task(access, handler, parse_arguments(args), fields, unchecked=unchecked)
    [receipt] = tasks.submit(access, [new])
    if not wait:
        if not print_json(form, receipt_shape(receipt)):
            echo(str(receipt.id))
        return
    if not any(not session.lost for session in access.store.sessions()):
        print_note("No node is alive, so nothing runs the task until one starts: `windlass worker APP`.")
    limit = None if wait_timeout is None else duration(wait_timeout, "wait_timeout").total_seconds()
    App(store=access.store).handle(receipt.id).wait(limit)
    task = tasks.get(access, receipt.id)
    if not print_json(form, task_shape(task)):
        done = task.state is State.COMPLETED
        echo(escape_json(task.result or "") if done else f"{task.state}: {task.reason}")
    if task.state is not State.COMPLETED:
        raise SystemExit(1)


def parse_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Parse arguments of the forms name=text, name:=JSON and @file.json."""
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("@"):
            found.update(_read_file(word[1:]))
            continue
        name, sign, value = word.partition("=")
        if not sign:
            raise InvalidTask(f"argument {word!r} is not name=text, name:=JSON or @file.json")
        found[name.removesuffix(":")] = _parse_json(value, name[:-1]) if name.endswith(":") else value
    return found


def _read_file(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise InvalidTask(f"argument @{name} cannot be read: {error.strerror}") from error
    value = _parse_json(text, f"@{name}")
    if not isinstance(value, dict):
        raise InvalidTask(f"argument @{name} is not a JSON object of arguments by name")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON's keys are text


def _parse_json(text: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidTask(f"argument {name} is not JSON: {error}") from error


def _parse_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, in the types of the Python API."""
    found = {name: value for name, value in options.items() if value not in (None, ())}
    for name in ("at", "deadline", "expires"):
        if name in found:
            found[name] = parse_when(found[name], name)
    if "after" in found:
        found["after"] = [_parse_prerequisite(text) for text in found["after"]]
    return found


def _parse_prerequisite(text: str) -> UUID | str:
    """Return a task id, or a key in the same workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text
