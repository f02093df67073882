"""Splits the text of a Python traceback into frames, so that a page can fold those of libraries. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from windlass.core.retry import Error

HEADING = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<name>.*))?$')
_LIBRARY = re.compile(
    r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python\d|^<frozen |[\\/]windlass[\\/](?:worker|client|core)[\\/]"
)


class Frame(Struct, frozen=True, kw_only=True):
    """One call: where it is, and its lines of code."""

    file: str
    line: int
    name: str
    code: str

    @property
    def is_library(self) -> bool:
        """Return True if the code belongs to Python, to an installed package or to Windlass."""
        return _LIBRARY.search(self.file) is not None


class Part(Struct, frozen=True, kw_only=True):
    """Lines that are not frames, or frames in a row that are all of libraries or all of the app."""

    text: str = ""
    frames: Sequence[Frame] = ()

    @property
    def is_library(self) -> bool:
        """Return True if the frames are of libraries."""
        return bool(self.frames) and self.frames[0].is_library


def split_error(error: Error) -> list[Part]:
    """Split the traceback of an error, without its heading and its last lines, which are the error itself."""
    parts = split_traceback(error.traceback)
    if len(parts) > 1 and parts[0].text == HEADING:
        del parts[0]
    if len(parts) > 1 and parts[-1].text.endswith(f"{error.kind}: {error.message}".removesuffix(": ")):
        del parts[-1]
    return parts


def split_traceback(text: str) -> list[Part]:
    """Split a traceback into its parts, in order. Text that is not a traceback is one part."""
    parts: list[Part] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        match = _FRAME.match(lines[at])
        if match is None:
            _add_text(parts, lines[at])
            at += 1
            continue
        indent = len(lines[at]) - len(lines[at].lstrip())
        end = at + 1
        while end < len(lines) and _is_code(lines[end], indent):
            end += 1
        code = "\n".join(line.strip() for line in lines[at + 1 : end] if set(line.strip()) - set("^~"))
        name = match["name"] or ""
        _add_frame(parts, Frame(file=match["file"], line=int(match["line"][:9]), name=name, code=code))
        at = end
    return parts


def _is_code(line: str, indent: int) -> bool:
    """Return True if a line belongs to the frame above it: it is indented more than the frame."""
    return len(line) - len(line.lstrip()) > indent and _FRAME.match(line) is None


def _add_text(parts: list[Part], line: str) -> None:
    if parts and not parts[-1].frames:
        parts[-1] = Part(text=f"{parts[-1].text}\n{line}")
    else:
        parts.append(Part(text=line))


def _add_frame(parts: list[Part], frame: Frame) -> None:
    if parts and parts[-1].frames and parts[-1].is_library == frame.is_library:
        parts[-1] = Part(frames=[*parts[-1].frames, frame])
    else:
        parts.append(Part(frames=[frame]))
