"""Writes the events of a node to the logger `windlass`."""

from __future__ import annotations

import logging

import msgspec

from windlass.events import (
    AttemptEnded,
    BreakerChanged,
    ControllerFailed,
    DutyFailed,
    Event,
    ReportRefused,
    SettingsRefused,
    SignalFailed,
    StoreCallFailed,
    WorkerParentFailed,
    WorkerStateChanged,
)

logger = logging.getLogger("windlass")
_LOUD = (
    StoreCallFailed,
    WorkerParentFailed,
    ReportRefused,
    ControllerFailed,
    DutyFailed,
    BreakerChanged,
    SettingsRefused,
    SignalFailed,
)


def log_event(event: Event) -> None:
    """Log one event: problems as warnings, the rest as information. Ended attempts are not logged."""
    if isinstance(event, AttemptEnded) or _is_routine(event):
        return
    level = logging.WARNING if isinstance(event, _LOUD) or getattr(event, "after", "") == "failed" else logging.INFO
    fields = msgspec.to_builtins(event)
    name = type(event).__name__
    text = " ".join(f"{field}={_short(value)}" for field, value in fields.items() if value not in ("", None, 0.0))
    logger.log(level, "%s %s", name, text, extra={"fields": {"event": name, **fields}})


def _is_routine(event: Event) -> bool:
    """Return True for a worker that changes between idle and busy, which happens with every task."""
    return isinstance(event, WorkerStateChanged) and {event.before, event.after} == {"idle", "busy"}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if not isinstance(value, str) or " " not in value else repr(value)
