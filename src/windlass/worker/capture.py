"""Captures what a handler prints and logs. Of long output, the beginning and the end are kept.

`print`, `sys.stderr` and `logging` are captured in the thread or coroutine of the attempt, and are still written where
they were before. Output of C code and of other processes, which write to the descriptors, is not captured.
"""

from __future__ import annotations

import io
import logging
import sys
from contextvars import ContextVar, Token
from typing import TextIO

MAX_HEAD = MAX_TAIL = 32 * 1024
"""Characters that are kept of the beginning and of the end."""


class Log:
    """The output of one attempt."""

    def __init__(self) -> None:
        self._head = io.StringIO()
        self._head_size = 0
        self._tail = ""
        self._left_out = 0
        self._token: Token[Log | None] | None = _current.set(self)

    def write(self, text: str) -> None:
        room = MAX_HEAD - self._head_size
        if room > 0:
            self._head_size += self._head.write(text[:room])
            text = text[room:]
        if text:
            tail = self._tail + text
            self._left_out += max(0, len(tail) - MAX_TAIL)
            self._tail = tail[-MAX_TAIL:]

    def end(self) -> str | None:
        """Stop capturing. Return what was kept; None if there was no output."""
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        text = self._head.getvalue()
        if self._left_out:
            text += f"\n… {self._left_out:,} characters left out …\n"
        return text + self._tail or None


class Tee(io.TextIOBase):
    """A standard stream that also writes to the log of the attempt. Errors of the stream are ignored."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        log = _current.get()
        if log is not None:
            log.write(text)
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


def _replace_unencodable(text: str, encoding: str) -> str:
    """Return the text with characters that the encoding lacks replaced by escapes."""
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


class LogHandler(logging.Handler):
    """Writes log records of an attempt to its log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is not None:
            log.write(self.format(record) + "\n")


class Capture:
    """Captures the output of attempts in this process."""

    def install(self) -> None:
        """Replace the standard streams, and add a handler to the root logger."""
        sys.stdout, sys.stderr = Tee(sys.stdout), Tee(sys.stderr)
        handler = LogHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        if root.level == logging.WARNING:  # the default: the app has not chosen a level
            root.setLevel(logging.INFO)

    def begin(self) -> Log:
        """Start a new log for the output of this thread or coroutine."""
        return Log()


_current: ContextVar[Log | None] = ContextVar("windlass_log", default=None)
