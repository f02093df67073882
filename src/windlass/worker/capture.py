"""What a handler prints and logs, kept for its attempt: the first and the last of it when it is much.

`print`, `sys.stderr` and `logging` are caught in the thread or coroutine of the attempt, and still go where they went
before. What C code or another process writes to the descriptors themselves belongs to nobody and is not caught.
"""

from __future__ import annotations

import io
import logging
import sys
from contextvars import ContextVar, Token
from typing import TextIO

MAX_HEAD = MAX_TAIL = 32 * 1024
"""Characters kept of the beginning and of the end."""


class Log:
    """The output of one attempt."""

    def __init__(self) -> None:
        self._head = io.StringIO()
        self._tail = ""
        self._left_out = 0
        self._token: Token[Log | None] | None = _current.set(self)

    def write(self, text: str) -> None:
        room = MAX_HEAD - self._head.tell()
        if room > 0:
            self._head.write(text[:room])
            text = text[room:]
        if text:
            tail = self._tail + text
            self._left_out += max(0, len(tail) - MAX_TAIL)
            self._tail = tail[-MAX_TAIL:]

    def end(self) -> str | None:
        """All that was kept, or None for nothing; nothing is added from here on."""
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        text = self._head.getvalue()
        if self._left_out:
            text += f"\n… {self._left_out:,} characters left out …\n"
        return text + self._tail or None


class Tee(io.TextIOBase):
    """Stands for a standard stream: what an attempt writes goes into its log too. Output is no reason to fail."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        log = _current.get()
        if log is not None:
            log.write(text)
        try:
            if self._stream is not None:
                self._stream.write(_writable(text, self.encoding))
        except (OSError, ValueError):  # closed, or a pipe that nobody reads
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
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - text streams say it as a property
        return getattr(self._stream, "encoding", None) or "utf-8"

    def close(self) -> None:
        """A handler that closes its stdout closes it for itself; the next attempt prints as before."""


def _writable(text: str, encoding: str) -> str:
    """The text as the stream can take it, which may not know every letter, nor a file name that is no text."""
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


class LogHandler(logging.Handler):
    """Puts log records of an attempt into its log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is not None:
            log.write(self.format(record) + "\n")


class Capture:
    """Catches the output of attempts in this process."""

    def install(self) -> None:
        """Take the place of the standard streams, and listen to the root logger."""
        sys.stdout, sys.stderr = Tee(sys.stdout), Tee(sys.stderr)
        handler = LogHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        if root.level == logging.WARNING:  # nobody has chosen one: an attempt's log is worth more than silence
            root.setLevel(logging.INFO)

    def begin(self) -> Log:
        """From here on this thread's, or coroutine's, output belongs to a new log."""
        return Log()


_current: ContextVar[Log | None] = ContextVar("windlass_log", default=None)
