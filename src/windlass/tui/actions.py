"""What a key changes in the store, each with its line in the audit log, and what is said when it is done."""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.operations import pool_overrides
from windlass.operations.legacy_queues import RESUMED, change_queue, paused
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

Action = Callable[[Store, str], str]
"""Changes something in the name of somebody, and says what it did."""


def retry(id: TaskId) -> Action:
    """Bring a task back that ended badly."""

    def deed(store: Store, by: str) -> str:
        if not store.retry([id], entries=[_entry(f"task/{id}", "retried", "retried 1 task", by)]):
            return f"{id} was not retried: only failed, cancelled and expired tasks are"
        return f"retried {id}"

    return deed


def cancel(id: TaskId) -> Action:
    """Cancel an unfinished task; one that runs is asked to stop."""

    def deed(store: Store, by: str) -> str:
        entry = _entry(f"task/{id}", "cancelled", "cancelled 1 task", by)
        if not store.cancel([id], reason=f"cancelled by {by}", entries=[entry]):
            return f"{id} was not cancelled: it has ended"
        return f"cancelled {id}"

    return deed


def pause_queue(name: str, why: str) -> Action:
    """Let nothing more of a queue be claimed."""

    def deed(store: Store, by: str) -> str:
        entry = _entry(f"queue/{name}", "paused", f"paused the queue {name}{_because(why)}", by)
        change_queue(store, name, paused(by, why), entry)
        return f"{name} is paused"

    return deed


def resume_queue(name: str, why: str) -> Action:
    """Let a queue be claimed again."""

    def deed(store: Store, by: str) -> str:
        entry = _entry(f"queue/{name}", "resumed", f"resumed the queue {name}{_because(why)}", by)
        changed = change_queue(store, name, RESUMED, entry)
        return f"{name} is open again" if changed else f"{name} is not paused; nothing was changed"

    return deed


def set_pool(name: str, size: tuple[int, int], why: str) -> Action:
    """Overrule the controller for an hour."""

    def deed(store: Store, by: str) -> str:
        pool_overrides.pin(store, name, *size, by=by, why=why)
        return f"{name} is set to {sized(size)} for 1h"

    return deed


def freeze_pool(name: str, why: str) -> Action:
    """Keep the size that a pool has."""

    def deed(store: Store, by: str) -> str:
        order = pool_overrides.freeze(store, name, by=by, why=why)
        return f"{name} stays at {order.override.least if order.override else '–'}"

    return deed


def pause_pool(name: str, why: str) -> Action:
    """Size 0."""

    def deed(store: Store, by: str) -> str:
        pool_overrides.pause(store, name, by=by, why=why)
        return f"{name} is paused"

    return deed


def resume_pool(name: str, why: str) -> Action:
    """Let a pool size itself again."""

    def deed(store: Store, by: str) -> str:
        pool_overrides.resume(store, name, by=by, why=why)
        return f"{name} sizes itself again"

    return deed


def size_of(text: str) -> tuple[int, int]:
    """A size as people write it: a number, or a range."""
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise InvalidTask(f"size={text!r} is no size; give a number as in 12, or a range as in 2-8") from None


def sized(size: tuple[int, int]) -> str:
    """A size in words."""
    return f"{size[0]}" if size[0] == size[1] else f"{size[0]} to {size[1]}"


def _entry(subject: str, action: str, text: str, by: str) -> Entry:
    return Entry(subject=subject, action=action, text=text, by=by)


def _because(why: str) -> str:
    return f": {why}" if why else ""
