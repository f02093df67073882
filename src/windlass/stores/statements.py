"""The SQL statements of a store: one a file, named as they are called, the same names in both dialects.

A file opens with comment lines: what the statement does, `-- moves:` with the state moves it is part of, and, when it
works on many rows at once, `-- batch:` with its columns and their types. Parameters are written `:name`; here they
become the numbered ones the driver wants, the batch's columns first. No statement is ever put together from pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_HEADER = re.compile(r"^-- (moves|batch): (.*(?:\n--   .*)*)", re.MULTILINE)


class Column(Struct, frozen=True):
    """One column of a batch."""

    name: str
    type: str


class Statement(Struct, frozen=True, kw_only=True):
    """A statement, ready for its driver."""

    name: str
    text: str
    batch: tuple[Column, ...]
    scalars: tuple[str, ...]
    moves: str | None


@cache
def load(dialect: str, marker: str, folder: str = "sql") -> Mapping[str, Statement]:
    """Every statement in a dialect's folder. `marker` is what the driver puts before a parameter's number."""
    place = files("windlass.stores").joinpath(dialect, folder)
    found = (
        (file.name.removesuffix(".sql"), file.read_text()) for file in place.iterdir() if file.name.endswith(".sql")
    )
    return {name: parse(name, text, lambda n: f"{marker}{n}") for name, text in found}


def parse(name: str, source: str, numbered: Callable[[int], str]) -> Statement:
    """Read one file."""
    header = {kind: " ".join(text.replace("\n--", " ").split()) for kind, text in _HEADER.findall(source)}
    batch = tuple(Column(*pair.split()) for pair in header["batch"].split(", ")) if "batch" in header else ()
    text = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("--")).strip().rstrip(";")
    columns = [column.name for column in batch]
    scalars = tuple(dict.fromkeys(p for p in _PARAMETER.findall(text) if p not in columns))
    number = {parameter: n for n, parameter in enumerate([*columns, *scalars], 1)}
    return Statement(
        name=name,
        text=_PARAMETER.sub(lambda match: numbered(number[match[1]]), text),
        batch=batch,
        scalars=scalars,
        moves=header.get("moves"),
    )
