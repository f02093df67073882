"""Queues as people see and change them: settings, numbers of tasks, and pauses. What a change does not name stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.ordering import OPEN, Queue
from windlass.core.times import Duration, Micros, duration, format_duration, micros, span
from windlass.errors import InvalidTask, UnknownQueue
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import retry_on_conflict
from windlass.operations.node_about import served_queues
from windlass.operations.redact import redact_queue
from windlass.operations.reversal import Reversal, compare_fields, to_fields
from windlass.stores.coordination import MAX_QUEUES
from windlass.stores.series import Point, Resolution

CREATE = "To configure it in advance, pass create (--create)."
MAX_SERIES = timedelta(days=30)
"""How far back a series may be asked for; how long points are kept is a setting of the store."""


RECENT_CHANGES = 20
"""Among how many of the latest changes of a queue its pause is looked for."""


WAITS_LAST = timedelta(minutes=15)
WAITS_SAMPLED = 1_000
"""Waits are computed from the tasks of all queues that completed last: at most this number, within this time."""


class Waits(Struct, frozen=True, kw_only=True):
    """How long some tasks that completed last had waited since they were due."""

    tasks: int
    """How many tasks these are."""
    median: Micros
    p95: Micros
    """The longest wait of all but the 5 % that waited longest."""


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue: its settings, its tasks by state, and its oldest runnable task."""

    settings: Queue
    tasks: Mapping[State, int]
    oldest: Micros | None
    """When the runnable task that has waited longest became due. None if there is none, or for a limited caller."""
    waits: Waits | None = None
    """Wait times of this queue's tasks among those that completed last. None if there are none, as for `oldest`."""

    @property
    def name(self) -> str:
        """Return the queue's name."""
        return self.settings.name


def get_all(access: Access) -> list[QueueView]:
    """Return every queue that was configured or has tasks, by name."""
    tasks: dict[str, dict[State, int]] = {}
    for count in access.counts():
        states = tasks.setdefault(count.queue, {})
        states[count.state] = states.get(count.state, 0) + max(0, count.tasks)
    known = {queue.name: queue for queue in access.store.queues() if access.caller.queue in (None, queue.name)}
    names = sorted(known.keys() | tasks.keys())
    seen = access.store.look(names[:MAX_QUEUES], ahead=timedelta(0))
    oldest = {} if access.caller.tenant is not None else {each.queue: each.oldest for each in seen.queues}
    waits = {} if access.caller.tenant is not None else _read_waits(access, seen.now)
    return [
        QueueView(
            settings=redact_queue((known.get(name) or Queue(name=name)).at(seen.now)),
            tasks=tasks.get(name, {}),
            oldest=oldest.get(name),
            waits=summarize_waits(waits.get(name, ())),
        )
        for name in names
    ]


def get_waits(access: Access, name: str | None = None) -> Waits | None:
    """Return how long the tasks that completed last had waited, of all queues or one. None if there are none.

    They are of all tenants, so a caller limited to one is refused.
    """
    if access.caller.tenant is not None or name is None:
        access.check_unlimited()
    if name is not None and access.caller.queue not in (None, name):
        raise UnknownQueue(name)
    found = _read_waits(access, access.store.look([], ahead=timedelta(0)).now)
    return summarize_waits([wait for queue, waits in found.items() if name in (None, queue) for wait in waits])


def _read_waits(access: Access, now: Micros) -> dict[str, list[Micros]]:
    found: dict[str, list[Micros]] = {}
    for wait in access.store.recent_waits(now - micros(WAITS_LAST), limit=WAITS_SAMPLED):
        found.setdefault(wait.queue, []).append(wait.waited)
    return found


def summarize_waits(waits: Sequence[Micros]) -> Waits | None:
    """Return the median and the 95th percentile of some waits; None if there are none."""
    if not waits:
        return None
    ordered = sorted(waits)
    return Waits(
        tasks=len(ordered), median=ordered[(len(ordered) - 1) // 2], p95=ordered[ceil(len(ordered) * 0.95) - 1]
    )


class PausedQueue(Struct, frozen=True):
    """A paused queue, and when it was paused; None if the audit log no longer says so."""

    settings: Queue
    at: Micros | None


def get_paused(access: Access) -> list[PausedQueue]:
    """Return the paused queues, by name. It reads no numbers of tasks, so it is cheap."""
    found = [queue for queue in access.store.queues() if queue.paused and access.caller.queue in (None, queue.name)]
    if not found:
        return []
    now = access.store.look([], ahead=timedelta(0)).now
    paused = [queue for each in found if (queue := each.at(now)).paused]
    return [PausedQueue(redact_queue(queue), _paused_at(access, queue.name)) for queue in paused]


def _paused_at(access: Access, name: str) -> Micros | None:
    entries = access.store.audit(f"queue/{name}", limit=RECENT_CHANGES)
    return next((entry.at for entry in entries if entry.action == "paused"), None)


def get(access: Access, name: str) -> QueueView:
    """Return one queue. Raise `UnknownQueue` if it was never configured and has no tasks."""
    found = next((view for view in get_all(access) if view.name == name), None)
    if found is None:
        raise UnknownQueue(name)
    return found


def series(access: Access, name: str | None, resolution: Resolution, last: timedelta) -> list[Point]:
    """Return what happened in a queue, or in all queues, in each second or minute since `last` ago, oldest first.

    Points in which nothing happened are left out. The points cover all tenants, so a caller limited to one is refused.
    """
    if not timedelta(0) < last <= MAX_SERIES:
        raise InvalidTask(f"last={last} is out of range. Use more than 0s and at most {MAX_SERIES.days}d.")
    if access.caller.tenant is not None or name is None:
        access.check_unlimited()
    if name is not None:
        get(access, name)
    now = access.store.look([], ahead=timedelta(0)).now
    return access.store.series(name, resolution, now - micros(last))


def change(
    access: Access, name: str, settings: Mapping[str, Any], author: Author, *, create: bool = False
) -> QueueView:
    """Change some settings of a queue. Setting what is set already is not logged.

    Without `create`, raise `UnknownQueue` for a name that nothing uses.
    """
    _check_known(access, name, create=create)
    values = ", ".join(f"{field}={_describe(value)}" for field, value in settings.items())
    return _change(access, name, settings, author, "configured", f"set {values} of queue {name}", settings=settings)


def pause(
    access: Access, name: str, author: Author, *, lasts: Duration | None = None, create: bool = False
) -> QueueView:
    """Stop claiming tasks of a queue, for some time or until it is resumed; running tasks continue.

    Without `create`, raise `UnknownQueue` for a name that nothing uses.
    """
    _check_known(access, name, create=create)
    until, text = None, f"paused queue {name}"
    if lasts is not None:
        length = span(duration(lasts, "for"), "for")
        until = access.store.look([], ahead=timedelta(0)).now + length
        text += f" for {format_duration(length)}"
    settings = {"paused": True, "paused_by": author.by, "paused_why": author.why or None, "paused_until": until}
    return _change(access, name, settings, author, "paused", text)


def resume(access: Access, name: str, author: Author) -> QueueView:
    """Claim tasks of a queue again. Raise `UnknownQueue` for a name that nothing uses."""
    _check_known(access, name, create=False)
    return _change(access, name, OPEN, author, "resumed", f"resumed queue {name}")


def remove(access: Access, name: str, author: Author) -> QueueView:
    """Remove the settings of a queue without unfinished tasks. Finished tasks stay until their retention is over."""
    access.check_queue(name)
    before = get(access, name)
    undo = compare_fields(to_fields(_read_settings(access, name)), to_fields(Queue(name=name)))
    entry = author.entry(f"queue/{name}", "removed", f"removed the settings of queue {name}", undo=undo)
    access.store.remove_queue(name, entries=[entry])
    return before


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo a change of the settings of a queue."""
    access.check_queue(name)

    def attempt() -> None:
        before = _read_settings(access, name)
        present = to_fields(before)
        restored = reversal.revert(present)
        queue = msgspec.convert(restored, Queue)
        access.store.configure(queue, expect=before, entries=[reversal.note(present, to_fields(queue))])

    retry_on_conflict(f"queue {name}", attempt)


def _check_known(access: Access, name: str, *, create: bool) -> None:
    """Raise `UnknownQueue` for a name that nothing uses: no setting, task, handler or live node. It may be a typo."""
    access.check_queue(name)
    if not create and name not in _known_names(access):
        raise UnknownQueue(name, CREATE)


def _known_names(access: Access) -> set[str]:
    """Return every queue that has settings or tasks, that a handler uses, or that a live node serves."""
    store = access.store
    named = {queue.name for queue in store.queues()} | {count.queue for count in store.counts()}
    named |= {handler.queue for handler in store.handlers()}
    return named | {queue for session in store.sessions() if not session.lost for queue in served_queues(session)}


def _change(
    access: Access, name: str, changes: Mapping[str, Any], author: Author, action: str, text: str, **data: object
) -> QueueView:
    access.check_queue(name)

    def attempt() -> None:
        before = _read_settings(access, name)
        after = replace(before, **changes)
        undo = compare_fields(to_fields(before), to_fields(after))
        entry = author.entry(f"queue/{name}", action, text, **data, undo=undo)
        access.store.configure(after, expect=before, entries=[entry])

    retry_on_conflict(f"queue {name}", attempt)
    return get(access, name)


def _read_settings(access: Access, name: str) -> Queue:
    """Return the stored settings of a queue; the defaults if it has none."""
    return next((queue for queue in access.store.queues() if queue.name == name), Queue(name=name))


def _describe(value: Any) -> str:
    return format_duration(value // timedelta(microseconds=1)) if isinstance(value, timedelta) else str(value).lower()
