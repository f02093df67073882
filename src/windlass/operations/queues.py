"""Queues as people see and change them: settings, numbers of tasks, and pauses. What a change does not name stays."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

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
from windlass.stores.coordination import MAX_QUEUES, Entry
from windlass.stores.series import Point, Resolution

CREATE = "To configure it in advance, pass create (--create)."
MAX_SERIES = timedelta(days=30)
"""How far back a series may be asked for; how long points are kept is a setting of the store."""


RECENT_CHANGES = 20
"""Among how many of the latest changes of a queue its pause is looked for."""


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue: its settings, its tasks by state, and its oldest runnable task."""

    settings: Queue
    tasks: Mapping[State, int]
    oldest: Micros | None
    """When the runnable task that has waited longest became due. None if there is none, or for a limited caller."""

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
    return [
        QueueView(
            settings=redact_queue((known.get(name) or Queue(name=name)).at(seen.now)),
            tasks=tasks.get(name, {}),
            oldest=oldest.get(name),
        )
        for name in names
    ]


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
    entry = author.entry(f"queue/{name}", "configured", f"set {values} of queue {name}", settings=settings)
    return _change(access, name, settings, entry)


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
    return _change(access, name, settings, author.entry(f"queue/{name}", "paused", text))


def resume(access: Access, name: str, author: Author) -> QueueView:
    """Claim tasks of a queue again. Raise `UnknownQueue` for a name that nothing uses."""
    _check_known(access, name, create=False)
    return _change(access, name, OPEN, author.entry(f"queue/{name}", "resumed", f"resumed queue {name}"))


def remove(access: Access, name: str, author: Author) -> QueueView:
    """Remove the settings of a queue without unfinished tasks. Finished tasks stay until their retention is over."""
    access.check_queue(name)
    before = get(access, name)
    entry = author.entry(f"queue/{name}", "removed", f"removed the settings of queue {name}")
    access.store.remove_queue(name, entries=[entry])
    return before


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


def _change(access: Access, name: str, settings: Mapping[str, Any], entry: Entry) -> QueueView:
    access.check_queue(name)
    store = access.store

    def attempt() -> None:
        before = next((queue for queue in store.queues() if queue.name == name), Queue(name=name))
        store.configure(replace(before, **settings), expect=before, entries=[entry])

    retry_on_conflict(f"queue {name}", attempt)
    return get(access, name)


def _describe(value: Any) -> str:
    return format_duration(value // timedelta(microseconds=1)) if isinstance(value, timedelta) else str(value).lower()
