"""Captures what a handler and its threads print and log. Of long output, the beginning and the end are kept.

What is captured is also shown: `print` where it went before, and the rest on standard error. If the log is JSON, every
line there is an object with the task. An app that configures logging itself keeps its own handlers for showing. Output
of C code and of other processes, which write to the descriptors, is not captured. An attempt without output costs
nothing: its log is created by its first output.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Container
from typing import Any, TextIO

from windlass.clock import SystemClock
from windlass.core.assignment import Assignment
from windlass.core.times import to_datetime
from windlass.worker.log_format import LogOptions, encode_line, log_handler
from windlass.worker.thread_output import output_assignment

MAX_HEAD = MAX_TAIL = 32 * 1024
"""Characters that are kept of the beginning and of the end."""


class Log:
    """The output of one attempt."""

    def __init__(self) -> None:
        self._head = io.StringIO()
        self._head_size = 0
        self._tail = ""
        self._left_out = 0

    def write(self, text: str) -> None:
        room = MAX_HEAD - self._head_size
        if room > 0:
            self._head_size += self._head.write(text[:room])
            text = text[room:]
        if text:
            tail = self._tail + text
            self._left_out += max(0, len(tail) - MAX_TAIL)
            self._tail = tail[-MAX_TAIL:]

    def text(self) -> str | None:
        """Return what was kept; None if there was no output."""
        text = self._head.getvalue()
        if self._left_out:
            text += f"\n… {self._left_out:,} characters left out …\n"
        return text + self._tail or None


class Tee(io.TextIOBase):
    """A standard stream that also writes to the log of the attempt. Errors of the stream are ignored."""

    def __init__(self, stream: TextIO | None, capture: Capture) -> None:
        self._stream = stream
        self._capture = capture

    def write(self, text: str, /) -> int:
        self._capture.write(text)
        try:
            if self._stream is not None:
                self._stream.write(_replace_unencodable(text, self.encoding))
        except (OSError, ValueError):  # closed, or a pipe without a reader
            self._stream = None
        return len(text)

    def flush(self) -> None:
        try:
            if self._stream is not None:
                self._stream.flush()
        except (OSError, ValueError):
            self._stream = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - text streams have a property
        return getattr(self._stream, "encoding", None) or "utf-8"

    def close(self) -> None:
        """Do nothing, so that a handler that closes stdout does not close it for the next attempt."""


class JsonTee(Tee):
    """Standard error of a JSON log: each line that is written becomes an object."""

    def __init__(self, stream: TextIO | None, capture: Capture) -> None:
        super().__init__(stream, capture)
        self._unfinished = threading.local()

    def write(self, text: str, /) -> int:
        self._capture.write(text)
        *lines, self._unfinished.text = (getattr(self._unfinished, "text", "") + text).split("\n")
        for line in filter(None, lines):
            self._show(line)
        return len(text)

    def _show(self, text: str) -> None:
        now = to_datetime(SystemClock().now()).astimezone().isoformat(timespec="seconds")
        line = {"time": now, "level": "info", "event": "TaskOutput", "message": text, **describe_attempt()}
        try:
            if self._stream is not None:
                self._stream.write(encode_line(line) + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


def describe_attempt() -> dict[str, Any]:
    """Return the fields by which a log names the attempt that runs here; none outside of one."""
    found = output_assignment()
    if found is None:
        return {}
    return {
        "task_id": str(found.task),
        "handler": found.handler,
        "queue": found.queue,
        "tenant": found.tenant,
        "attempt": found.attempt,
    }


def _add_attempt(record: logging.LogRecord) -> bool:
    """Add the attempt to a record that is shown; a filter that lets everything pass."""
    record.fields = {"event": "TaskLog", **describe_attempt()}
    return True


def _replace_unencodable(text: str, encoding: str) -> str:
    """Return the text with characters that the encoding lacks replaced by escapes."""
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


class LogHandler(logging.Handler):
    """Writes log records of an attempt to its log."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        if output_assignment() is not None:
            self._capture.write(self.format(record) + "\n")


def _show_records(stream: TextIO, options: LogOptions) -> logging.Handler:
    handler = log_handler(stream, json=options.json, names=True)
    handler.setLevel(options.number)
    handler.addFilter(_add_attempt)
    return handler


class Capture:
    """Captures the output of attempts in this process. `running` has the tickets of those that have not ended."""

    def __init__(self, running: Container[int]) -> None:
        self._running = running
        self._logs: dict[int, Log] = {}

    def install(self, options: LogOptions | None = None) -> None:
        """Replace the standard streams, and add handlers to the root logger that capture and show records."""
        options, shown = options or LogOptions(), sys.stderr
        sys.stdout = Tee(sys.stdout, self)
        sys.stderr = JsonTee(shown, self) if options.json else Tee(shown, self)
        root = logging.getLogger()
        if root.level == logging.WARNING:  # the default: the app has not chosen a level
            root.setLevel(min(logging.INFO, options.number))
        if not root.handlers:
            root.addHandler(_show_records(shown, options))
        handler = LogHandler(self)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.addHandler(handler)

    def write(self, text: str) -> None:
        """Add text to the log of the attempt that runs here or has started this thread, if one does."""
        assignment: Assignment | None = output_assignment()
        if assignment is not None and assignment.ticket in self._running:
            self._logs.setdefault(assignment.ticket, Log()).write(text)

    def take(self, ticket: int) -> str | None:
        """Remove and return the output of an attempt that has ended; None if there was none."""
        log = self._logs.pop(ticket, None)
        return None if log is None else log.text()
