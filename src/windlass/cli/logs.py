"""What a node says while it works: lines for people in a terminal, JSON lines for machines elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from windlass.events import (
    AttemptEnded,
    BreakerTurned,
    ControllerFailed,
    DutyFailed,
    Event,
    Events,
    NurseryBroke,
    ReportRefused,
    SettingsRefused,
    SignalFailed,
    StoreTroubled,
    WorkerMoved,
)

logger = logging.getLogger("windlass")
_LOUD = (
    StoreTroubled,
    NurseryBroke,
    ReportRefused,
    ControllerFailed,
    DutyFailed,
    BreakerTurned,
    SettingsRefused,
    SignalFailed,
)


class JsonLines(logging.Formatter):
    """One JSON object a line; control characters are escaped by JSON itself."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_events(events: Events) -> None:
    """Log what happens on this node to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    terminal = sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S") if terminal else JsonLines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    events.listen(_log)


def _log(event: Event) -> None:
    if isinstance(event, AttemptEnded) or _is_routine(event):
        return
    level = logging.WARNING if isinstance(event, _LOUD) or getattr(event, "after", "") == "failed" else logging.INFO
    fields = msgspec.to_builtins(event)
    name = type(event).__name__
    said = " ".join(f"{field}={_short(value)}" for field, value in fields.items() if value not in ("", None, 0.0))
    logger.log(level, "%s %s", name, said, extra={"fields": {"event": name, **fields}})


def _is_routine(event: Event) -> bool:
    """Between idle and busy a worker goes with every task."""
    return isinstance(event, WorkerMoved) and {event.before, event.after} == {"idle", "busy"}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if not isinstance(value, str) or " " not in value else repr(value)
