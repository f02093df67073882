"""Writes the events of a node to the logger `windlass`: one line for each, with its fields for JSON."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from windlass.core.lifecycle import State
from windlass.events import (
    AttemptEnded,
    BreakerChanged,
    ControllerFailed,
    DutyFailed,
    Event,
    HandlerWaits,
    Listening,
    NodeDraining,
    NodeStarted,
    PoolResized,
    ProcessStuck,
    ReportRefused,
    SettingsRefused,
    SignalFailed,
    StoreCallFailed,
    TaskBounced,
    WorkerParentFailed,
    WorkerStateChanged,
)
from windlass.operations.presentation import ANSI, GLYPHS
from windlass.redaction import redact_text

logger = logging.getLogger("windlass")
_LOUD = (
    StoreCallFailed,
    TaskBounced,
    HandlerWaits,
    ProcessStuck,
    WorkerParentFailed,
    ReportRefused,
    ControllerFailed,
    DutyFailed,
    BreakerChanged,
    SettingsRefused,
    SignalFailed,
)
_ATTEMPT_LEVELS = {State.FAILED: logging.ERROR, State.RETRYING: logging.WARNING, State.EXPIRED: logging.WARNING}


def log_event(event: Event) -> None:
    """Log one event: problems as warnings, the rest as information."""
    if isinstance(event, AttemptEnded):
        _log_attempt(event)
    elif not _is_routine(event):
        level = logging.WARNING if isinstance(event, _LOUD) or getattr(event, "after", "") == "failed" else logging.INFO
        name = type(event).__name__
        fields = {"event": name, **msgspec.to_builtins(event)}
        logger.log(level, "%s", describe(event), extra={"fields": fields})


def _log_attempt(event: AttemptEnded) -> None:
    """Log the end of an attempt, with the traceback of the handler's own frames if it failed."""
    level = _ATTEMPT_LEVELS.get(event.state, logging.INFO)
    if not logger.isEnabledFor(level):
        return
    task = str(event.lease.task)
    fields: dict[str, Any] = {
        "event": "AttemptEnded",
        "task_id": task,
        "handler": event.handler,
        "queue": event.queue,
        "tenant": event.tenant,
        "attempt": event.attempt,
        "state": event.state.value,
        "seconds": round(event.seconds, 6),
    }
    text = f"{GLYPHS[event.state]} {event.handler} {task} {event.state.value} in {event.seconds:.3g} s"
    text += f", attempt {event.attempt}"
    detail = ""
    if event.state is not State.COMPLETED:
        reason = _reason(event)
        text += f": {reason}" if reason else ""
        fields["reason"] = reason
        detail = redact_text(event.error.traceback) if event.error is not None else ""
        fields["traceback"] = detail or None
    extra = {"fields": fields, "detail": detail, "color": ANSI[event.state]}
    logger.log(level, "%s", text, extra=extra)


def _reason(event: AttemptEnded) -> str | None:
    if event.error is None:
        return redact_text(event.reason)
    return redact_text(f"{event.error.kind}: {event.error.message}" if event.error.message else event.error.kind)


def describe(event: Event) -> str:
    """Return an event as text for people."""
    match event:
        case WorkerStateChanged():
            why = f": {event.why}" if event.why else ""
            return f"worker {event.worker} of {event.pool} (process {event.pid}): {event.before} → {event.after}{why}"
        case PoolResized():
            return f"pool {event.pool}: {event.before} → {event.after} workers: {event.why}"
        case NodeStarted():
            hidden = "" if event.hidden is None else f"; workers do not see {', '.join(event.hidden) or 'nothing'}"
            return f"node of {event.app} on {event.store}, pools {event.pools}{hidden}; Ctrl-C drains"
        case TaskBounced():
            return (
                f"{event.handler} {event.lease.task} cannot run here: no worker of this node has the handler; "
                f"released for {event.again_in:g} s"
            )
        case HandlerWaits():
            return (
                f"{event.handler} {event.lease.task} waits for another task and keeps its worker meanwhile; pool "
                f"{event.pool} starts another one in its place. A workflow needs no worker while it waits: "
                "docs/guides/concurrency.md"
            )
        case ProcessStuck():
            what = "" if event.worker is None else f" of worker {event.worker}"
            return (
                f"process {event.pid}{what} was killed and does not end; it may be in uninterruptible sleep (a disk or "
                "network file system that does not answer) or held by a debugger. The node continues without it"
            )
        case NodeDraining():
            return event.why
        case Listening():
            return f"{event.serves} at {event.address}"
        case _:
            return _describe_fields(event)


def _describe_fields(event: Event) -> str:
    fields = msgspec.to_builtins(event)
    text = " ".join(f"{field}={_short(value)}" for field, value in fields.items() if value not in ("", None, 0.0))
    return f"{type(event).__name__} {text}"


def _is_routine(event: Event) -> bool:
    """Return True for a worker that changes between idle and busy, which happens with every task."""
    return isinstance(event, WorkerStateChanged) and {event.before, event.after} == {"idle", "busy"}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if not isinstance(value, str) or " " not in value else repr(value)
