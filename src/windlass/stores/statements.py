"""The SQL statements of a store: one per file, with the same names in both dialects.

A file starts with comments: what the statement does, `-- moves:` with the state moves it makes, and, if it takes a
batch of rows, `-- batch:` with its columns and their types. Parameters are written `:name` and become the numbered
parameters of the driver, the columns of the batch first. Statements are never assembled from pieces.
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
    """A column of a batch."""

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
    """Load all statements in a dialect's folder. `marker` is the driver's prefix of a parameter's number."""
    place = files("windlass.stores").joinpath(dialect, folder)
    found = (
        (file.name.removesuffix(".sql"), file.read_text()) for file in place.iterdir() if file.name.endswith(".sql")
    )
    return {name: parse(name, text, lambda n: f"{marker}{n}") for name, text in found}


def parse(name: str, source: str, numbered: Callable[[int], str]) -> Statement:
    """Parse one file."""
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
