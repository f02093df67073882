"""Captures what a handler and its threads print and log. Of long output, the beginning and the end are kept
(`windlass.core.output`).

What is captured is also shown: `print` where it went before, and the rest on standard error. If the log is JSON, every
line there is an object with the task. An app that configures logging itself keeps its own handlers for showing. Output
of C code and of other processes, which write to the descriptors, is not captured. An attempt without output costs
nothing: its buffer is created by its first output.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Container
from queue import SimpleQueue
from typing import Any, TextIO

from windlass.clock import SystemClock
from windlass.core.assignment import Assignment
from windlass.core.output import OutputBuffer
from windlass.core.times import to_datetime
from windlass.worker.log_format import LogOptions, encode_line, log_handler
from windlass.worker.thread_output import output_assignment

MAX_AT_ONCE = 1024 * 1024
"""About how many characters of the output of running attempts a worker sends, or its node writes, at once."""


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
        self._outputs: dict[int, OutputBuffer] = {}
        self._changed: dict[int, None] = {}
        """Attempts with output that `take_changed` has not returned, in the order of their first such output."""
        # It has an item if something has changed. It never blocks: a handler may be interrupted or fork as it prints.
        self._changes: SimpleQueue[None] = SimpleQueue()

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
        """Add text to the output of the attempt that runs here or has started this thread, if one does."""
        assignment: Assignment | None = output_assignment()
        if assignment is not None and assignment.ticket in self._running:
            ticket = assignment.ticket
            output = self._outputs.get(ticket) or self._outputs.setdefault(ticket, OutputBuffer())
            output.write(text)
            self._changed[ticket] = None
            if self._changes.empty():
                self._changes.put(None)

    def take(self, ticket: int) -> str | None:
        """Remove and return the output of an attempt that has ended; None if there was none."""
        output = self._outputs.pop(ticket, None)
        if output is None:
            return None
        self._changed.pop(ticket, None)
        return output.text() or None

    def wait_for_change(self) -> None:
        """Wait until attempts have printed something since the last call, or `take_changed` has left something."""
        self._changes.get()

    def take_changed(self) -> list[tuple[int, str]]:
        """Return the output so far of running attempts that have printed since the last call, by ticket.

        Those that have waited longest come first. What exceeds `MAX_AT_ONCE` is left to the next call.
        """
        found: list[tuple[int, str]] = []
        size = 0
        for ticket in list(self._changed):
            if size >= MAX_AT_ONCE:
                self._changes.put(None)
                break
            self._changed.pop(ticket, None)  # Before the text is read: what is printed meanwhile changes it again.
            output = self._outputs.get(ticket)
            if output is not None and ticket in self._running and (text := output.text()):
                found.append((ticket, text))
                size += len(text)
        return found
