"""Steps that wait instead of running a handler: for an event, or for a time.

A wait is a task that no worker ever claims. When its prerequisites have ended it is `scheduled`, and due when the wait
is over: a sleep then completes, and an event that was not set by then expires. An event that is set completes its step
at once. Only stores move these tasks, so a wait holds no slot and survives every restart.

An event is a fact about a workflow: it is set once. Its step has a key made from its name, so the same step is found
from both sides, and setting the event before anything waits for it creates the step, completed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.names import check_name, check_text, check_type, shorten
from windlass.core.payload import canonical
from windlass.core.task import NewTask, SessionId, TaskId, Wait
from windlass.core.times import FOREVER, LATEST, Micros, duration, format_duration, span
from windlass.errors import EventConflict, InvalidTask, NotAllowed

QUEUE = "windlass.waits"
"""The queue of all waits. Nothing in it is ever runnable."""
EVENT = "windlass.event"
"""Stands in place of a handler in the steps of events."""
SLEEP = "windlass.sleep"
"""Stands in place of a handler in sleeps."""
WAITS = frozenset({EVENT, SLEEP})
STORE_SESSION = SessionId(UUID(int=0))
"""Stands for the store itself, which completes waits."""
BY_THE_STORE: dict[str, Any] = {"session": STORE_SESSION, "attempts": 1}
"""The fields of a wait that has completed, besides its times and result."""
TIMED_OUT = "was not set in time."
"""The end of the reason of an event that has expired."""

_wait_encoder = msgspec.json.Encoder()
_wait_decoder = msgspec.json.Decoder(Wait)


def is_event(wait: Wait | None) -> bool:
    """Return True for the step of an event."""
    return wait is not None and wait.event is not None


def event_key(event: str) -> str:
    """Return the key of the step of an event in its workflow."""
    return f"event:{event}"


def end_of_wait(wait: Wait, due: Micros | None, now: Micros) -> Micros:
    """Return when a wait that begins now is over. `due` is the time that its caller gave, if any."""
    if wait.is_set:
        return now
    if wait.delay is not None:
        return min(now + wait.delay, LATEST)
    if due is None:
        return LATEST if wait.event is not None else now
    return due


def timed_out(wait: Wait) -> str:
    """Return the reason of an event that was not set in time."""
    return f"Event {wait.event} {TIMED_OUT}"


def ends_well(wait: Wait) -> bool:
    """Return True if a wait whose time is over completes: a sleep, or an event that is set."""
    return wait.event is None or wait.is_set


def check_event(workflow: object, event: object, tenant: object) -> None:
    """Raise `InvalidTask` unless these can name an event."""
    check_name("event", event)
    check_text("workflow", workflow)
    check_name("tenant", tenant)


def new_event(workflow: str, event: str, *, tenant: str, wait: Wait | None = None, **fields: Any) -> NewTask:
    """Return the step of an event. `wait` says how long it waits and whether it is set; `fields` are more options."""
    args = {"event": event}
    if wait is not None and wait.delay is not None:
        args["timeout"] = format_duration(wait.delay)
    return NewTask(
        handler=EVENT,
        args=args,
        queue=QUEUE,
        tenant=tenant,
        workflow=workflow,
        key=event_key(event),
        wait=wait or Wait(event=event),
        **fields,
    )


def make_wait(new: NewTask) -> NewTask:
    """Return the step that a task with the handler `EVENT` or `SLEEP` describes with its arguments.

    An event has `event` and perhaps `timeout`, a sleep has `for` or `until`. Raise `InvalidTask`.
    """
    known = {"event", "timeout"} if new.handler == EVENT else {"for", "until"}
    given = {name: value for name, value in new.args.items() if value is not None}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise InvalidTask(f"args: {new.handler} has no argument {unknown[0]!r}. It has {' and '.join(sorted(known))}.")
    if new.handler == EVENT:
        check_name("event", given.get("event"))
        delay = None if "timeout" not in given else _length(given["timeout"], "timeout")
        event = new_event(
            new.workflow or "", given["event"], tenant=new.tenant, wait=Wait(event=given["event"], delay=delay)
        )
        if new.key not in (None, event.key):
            raise InvalidTask(f"key={new.key!r}: the step of an event has the key {event.key!r}. Leave it out.")
        return replace(new, args=event.args, queue=QUEUE, key=event.key, wait=event.wait)
    if ("for" in given) == ("until" in given):
        raise InvalidTask("args: a sleep needs either `for` (a duration) or `until` (a time with a zone).")
    if "for" in given:
        delay = _length(given["for"], "for")
        return replace(new, args={"for": format_duration(delay)}, queue=QUEUE, wait=Wait(delay=delay))
    until = _moment(given["until"])
    return replace(new, args={"until": until.isoformat()}, queue=QUEUE, at=until, wait=Wait())


def _length(value: object, field: str) -> Micros:
    return span(duration(value, field), field)


def _moment(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, datetime) or found.utcoffset() is None:
        raise InvalidTask(f"until={shorten(value)} is not a time with a zone, such as 2026-11-18T09:00:00+01:00.")
    return found


def check_wait(new: NewTask) -> None:
    """Raise `InvalidTask` for a task whose `wait` does not fit its other fields."""
    wait: object = new.wait
    check_type("wait", wait, Wait, "use wf.wait_for or wf.sleep")
    assert isinstance(wait, Wait)
    if wait.event is not None:
        check_name("event", wait.event)
        if new.workflow is None:
            raise InvalidTask(f"event={wait.event!r}: only a workflow has events. Name the workflow.")
        if new.key != event_key(wait.event):
            raise InvalidTask(f"key={new.key!r}: the step of an event has the key {event_key(wait.event)!r}.")
    expected = SLEEP if wait.event is None else EVENT
    if new.handler != expected or new.queue != QUEUE:
        raise InvalidTask(f"handler={new.handler!r}: a wait has the handler {expected} and the queue {QUEUE}.")
    if wait.delay is not None and (type(wait.delay) is not int or not 0 <= wait.delay <= FOREVER):
        raise InvalidTask(f"delay={wait.delay!r} is not a number of microseconds")


def is_same_value(one: str | None, other: str | None) -> bool:
    """Return True if two JSON texts mean the same."""
    return one == other or (
        one is not None
        and other is not None
        and canonical(msgspec.json.decode(one)) == canonical(msgspec.json.decode(other))
    )


def check_can_set(
    event: str, value: str | None, *, task: TaskId, state: State, wait: Wait, result: str | None, reason: str | None
) -> bool:
    """Return True if an event may be set now, False if it is set to the same value already. Otherwise raise.

    `EventConflict`: it is set to another value. `NotAllowed`: its step has ended without it.
    """
    if state is State.COMPLETED or (wait.is_set and not state.ended_badly):
        known = result if state is State.COMPLETED else wait.value
        if not is_same_value(known, value):
            raise EventConflict(event)
        return False
    if state.ended_badly:
        raise NotAllowed(
            f"Event {event!r} can no longer be set: its step is {state.value} ({reason or 'no reason recorded'}). To "
            f"wait again, retry the step first: windlass tasks retry {task}"
        )
    return True


def encode_wait(wait: Wait | None) -> str | None:
    """Encode a wait as a store keeps it."""
    return None if wait is None else _wait_encoder.encode(wait).decode()


def decode_wait(text: str | None) -> Wait | None:
    """Decode what `encode_wait` encoded. Damaged text becomes a sleep that never ends by itself."""
    try:
        return None if text is None else _wait_decoder.decode(text)
    except (msgspec.DecodeError, TypeError):
        return Wait(delay=LATEST)
