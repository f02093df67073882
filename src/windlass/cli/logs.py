"""What a node says while it works: lines for people in a terminal, JSON lines for machines elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from windlass.events import Events
from windlass.worker.logs import log_event, logger


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
    events.listen(log_event)
