"""The two forms of a log: lines for people on a terminal, and elsewhere JSON, one object per line with `event`."""

from __future__ import annotations

import logging
import os
from typing import Any, TextIO

import click
import msgspec

from windlass.operations.presentation import escape_controls, escape_json, escape_line

_LEVEL_COLORS = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


class LogOptions(msgspec.Struct, frozen=True):
    """How worker processes show what handlers log."""

    level: str = "info"
    json: bool = False

    @property
    def number(self) -> int:
        """The level as a number of the module `logging`."""
        return getattr(logging, self.level.upper())


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object per line. A record without an event is a `Log`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": "Log",
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return encode_line(line)


class TerminalLines(logging.Formatter):
    """Formats each record for people: time, text, and the traceback of an error, in color if that is allowed.

    A text may come from a task, so control characters become escapes, and newlines too except in tracebacks.
    """

    def __init__(self, *, color: bool, names: bool = False) -> None:
        super().__init__("%(asctime)s %(name)s: %(message)s" if names else "%(asctime)s %(message)s", "%H:%M:%S")
        self._color = color

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a method of `logging`
        return escape_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        text = escape_controls(super().format(record))
        detail: str = getattr(record, "detail", "")
        if detail:
            text = "\n".join([text, *(f"    {escape_controls(line)}" for line in detail.rstrip().splitlines())])
        color = getattr(record, "color", None) or _LEVEL_COLORS.get(record.levelno)
        return click.style(text, fg=color) if color and self._color else text


def encode_line(line: dict[str, Any]) -> str:
    """Encode one line of a JSON log."""
    return escape_json(msgspec.json.encode(line, enc_hook=str).decode())


def log_handler(stream: TextIO, *, json: bool, names: bool = False) -> logging.Handler:
    """Return a handler that writes to a stream in one of the two forms."""
    handler = logging.StreamHandler(stream)
    color = stream.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(JsonLines() if json else TerminalLines(color=color, names=names))
    return handler
