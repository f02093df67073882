"""The output of an attempt: how much of it is kept, and which of its lines a reader has not seen yet.

Of a long output, the beginning and the end are kept, and a line between them says what was left out. It has the number
of lines, so that a reader who reads a growing output again and again can distinguish new lines from old ones. A line of
the handler that looks like it is written with other dots.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

MAX_HEAD = MAX_TAIL = 32 * 1024
"""Characters that are kept of the beginning and of the end."""
MAX_OUTPUT = MAX_HEAD + MAX_TAIL + 100
"""Characters of the longest output that is kept: its two parts, and the line about what was left out."""
_LEFT_OUT = re.compile(r"\n… [0-9,]+ characters left out \((?P<lines>[0-9][0-9,]*) lines\) …\n")
_IMITATED = re.compile(r"^…( [0-9,]+ characters left out \([0-9,]+ lines\) )…$", re.MULTILINE)


class OutputBuffer:
    """Collects the output of one attempt, and keeps its beginning and its end."""

    def __init__(self) -> None:
        self._head = io.StringIO()
        self._head_size = 0
        self._tail = ""
        self._characters_left_out = 0
        self._lines_left_out = 0

    def write(self, text: str) -> None:
        """Append text."""
        room = MAX_HEAD - self._head_size
        if room > 0:
            self._head_size += self._head.write(text[:room])
            text = text[room:]
        if text:
            tail = self._tail + text
            left_out = len(tail) - MAX_TAIL
            if left_out > 0:
                self._characters_left_out += left_out
                self._lines_left_out += tail.count("\n", 0, left_out)
            self._tail = tail[-MAX_TAIL:]

    def text(self) -> str:
        """Return what was kept, with a line about what was left out."""
        head = self._head.getvalue()
        if not self._characters_left_out:
            return _escape(head + self._tail)
        left_out = f"\n… {self._characters_left_out:,} characters left out ({self._lines_left_out:,} lines) …\n"
        return _escape(head) + left_out + _escape(self._tail)


def cut_output(text: str) -> str:
    """Return an output with as much of it as is kept."""
    buffer = OutputBuffer()
    buffer.write(text)
    return buffer.text()


class OutputFollower:
    """Finds the new lines of one output each time that it is read."""

    def __init__(self) -> None:
        self._next = 0

    def find_new_lines(self, text: str, *, running: bool) -> list[str]:
        """Return the lines that have not been returned before.

        Lines that are no longer stored are replaced by one line with their number. The last line of a
        running attempt is returned when it is complete.
        """
        lines = list(_number_lines(text))
        if running or not lines[-1][1]:
            lines.pop()
        found: list[str] = []
        for number, line in lines:
            if number < self._next:
                continue
            if number > self._next:
                found.append(f"… {number - self._next:,} lines left out …")
            found.append(line)
            self._next = number + 1
        return found


def _escape(text: str) -> str:
    """Return text of a handler without lines that look like the one about what was left out. Its length stays."""
    return _IMITATED.sub(r"·\1·", text)


def _number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of an output with their numbers. What was left out counts too."""
    cut = _LEFT_OUT.search(text)
    head = (text if cut is None else text[: cut.start()]).split("\n")
    yield from enumerate(head)
    if cut is not None:
        first = len(head) - 1 + int(cut["lines"].replace(",", ""))
        yield from enumerate(text[cut.end() :].split("\n"), first)
