"""Logging to standard error: plain lines on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events import Events
from windlass.worker.logs import log_event, logger


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object per line."""

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


def log_to_stderr(loggers: Iterable[logging.Logger], level: int) -> None:
    """Send the records of these loggers, from a level on, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    terminal = sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S") if terminal else JsonLines())
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(level)
        each.propagate = False


def log_events(events: Events) -> None:
    """Log the events of this node to standard error."""
    log_to_stderr([logger], logging.INFO)
    events.listen(log_event)
