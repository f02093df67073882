"""`windlass queues`: what waits where, and the switches of a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
from msgspec import to_builtins

from windlass.cli.audit_options import because, by_option, entry, somebody, why_option
from windlass.cli.completion import complete_queue
from windlass.cli.output import form_options, print_json_form, print_note, table
from windlass.cli.stores import opened, store_option
from windlass.cli.time_options import Times, tz_option
from windlass.core.lifecycle import QUEUED, State
from windlass.core.ordering import Strategy
from windlass.core.times import duration, format_duration, to_datetime
from windlass.errors import InvalidTask
from windlass.operations.legacy_queues import RESUMED, change_queue, paused
from windlass.stores.coordination import MAX_QUEUES, QueueLook
from windlass.stores.protocol import Store
from windlass.wire.schemas import QueueShape
from windlass.wire.shapes import queue_shapes

_SHOWN = (State.RUNNABLE, State.LEASED, State.WAITING, State.SCHEDULED, State.RETRYING, State.FAILED)


@click.group()
def queues() -> None:
    """See what waits where, pause and resume queues, change their settings."""


@queues.command("ls")
@store_option
@form_options
@tz_option
def ls(store_url: str | None, form: str | None, times: Times) -> None:
    """Every queue that was configured or has tasks: settings, counts by state, the oldest wait, and who paused it."""
    store = opened(store_url)
    shapes = queue_shapes(store.queues(), store.counts())
    looks = _looks(store, [shape.name for shape in shapes])
    if print_json_form(form, [_document(shape, looks.get(shape.name)) for shape in shapes]):
        return
    heads = ("queue", *(f"#{state.value}" for state in _SHOWN), "oldest wait", "settings")
    table(heads, [_row(shape, looks.get(shape.name), times) for shape in shapes])
    if not shapes:
        print_note("no queue yet: submit a task, or start a node with `windlass worker APP`")


@queues.command()
@store_option
@click.argument("name", shell_complete=complete_queue)
@why_option
@by_option
def pause(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Let nothing more of a queue be claimed; what runs goes on."""
    store = opened(store_url)
    told = entry(f"queue/{name}", "paused", f"paused the queue {name}{because(why)}", by=by)
    change_queue(store, name, paused(somebody(by), why), told)
    print_note(f"{name} is paused; `windlass queues resume {name}` ends it")


@queues.command()
@store_option
@click.argument("name", shell_complete=complete_queue)
@why_option
@by_option
def resume(store_url: str | None, name: str, why: str, by: str | None) -> None:
    """Let the tasks of a queue be claimed again."""
    store = opened(store_url)
    told = entry(f"queue/{name}", "resumed", f"resumed the queue {name}{because(why)}", by=by)
    changed = change_queue(store, name, RESUMED, told)
    print_note(f"{name} is open again" if changed else f"{name} is not paused; nothing was changed")


@queues.command("set")
@store_option
@click.argument("name", shell_complete=complete_queue)
@click.option("--strategy", type=click.Choice([strategy.value for strategy in Strategy]))
@click.option("--horizon", metavar="TIME", help="The deadline of a task that has none, counted from when it is due.")
@click.option("--step", metavar="TIME", help="For aging: how much waiting one point of priority is worth.")
@click.option("--max-waiting", metavar="N", help="Beyond this a submit is refused; `none` for no bound.")
@click.option("--weight", type=int, help="How often it is served beside others, 1 to 1000.")
@why_option
@by_option
def set_(store_url: str | None, name: str, why: str, by: str | None, **options: str | int | None) -> None:
    """Change settings of a queue; what is left out stays. A new strategy gives its tasks their new places."""
    changes = {field: _setting(field, value) for field, value in options.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to set: give --strategy, --horizon, --step, --max-waiting or --weight")
    store = opened(store_url)
    told = ", ".join(f"{field}={_shown(value)}" for field, value in changes.items())
    text = f"set {told} of the queue {name}{because(why)}"
    change_queue(store, name, changes, entry(f"queue/{name}", "configured", text, by=by))
    print_note(f"{name}: {told}")


def _setting(field: str, value: str | int) -> Any:
    match field:
        case "strategy":
            return Strategy(value)
        case "horizon" | "step":
            return duration(value, field)
        case "max_waiting":
            return _bound(str(value))
        case _:
            return value


def _bound(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise InvalidTask(f"max_waiting={text!r} is no bound; give a number from 0, or none")
    return int(text)


def _shown(value: Any) -> str:
    return format_duration(value // timedelta(microseconds=1)) if isinstance(value, timedelta) else str(value).lower()


def _looks(store: Store, names: list[str]) -> dict[str, QueueLook]:
    """The oldest waits: one probe of an index for each queue."""
    found = store.look(names[:MAX_QUEUES], ahead=timedelta(0)).queues
    return {look.queue: look for look in found}


def _document(shape: QueueShape, look: QueueLook | None) -> dict[str, Any]:
    oldest = None if look is None or look.oldest is None else to_datetime(look.oldest)
    return {**to_builtins(shape), "oldest": oldest}


def _row(shape: QueueShape, look: QueueLook | None, times: Times) -> list[str]:
    oldest = None if look is None else look.oldest
    wait = "–" if oldest is None else times.ago(oldest).removesuffix(" ago")
    return [shape.name, *(f"{shape.tasks.get(state.value, 0):,}" for state in _SHOWN), wait, _settings(shape)]


def _settings(shape: QueueShape) -> str:
    """What is not as usual, the pause first."""
    said: list[str] = []
    if shape.paused:
        by = f" by {shape.paused_by}" if shape.paused_by else ""
        said.append(f"PAUSED{by}" + (f' "{shape.paused_why}"' if shape.paused_why else ""))
    said.append(shape.strategy.value)
    if shape.strategy in (Strategy.DEADLINE, Strategy.AGING):
        said.append(f"horizon {format_duration(int(shape.horizon_seconds * 1e6))}")
    if shape.strategy is Strategy.AGING:
        said.append(f"step {format_duration(int(shape.step_seconds * 1e6))}")
    if shape.max_waiting is not None:
        waiting = sum(shape.tasks.get(state.value, 0) for state in QUEUED)
        said.append(f"{waiting:,} of at most {shape.max_waiting:,} wait")
    if shape.weight != 1:
        said.append(f"weight {shape.weight}")
    return ", ".join(said)
