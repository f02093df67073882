"""Small HTML tables for notebooks. Every text is escaped, and nothing in them runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

MAX_TEXT = 300
"""Characters of one cell; a longer text is cut."""


def html_table(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Return a table with a caption and one row for each fact that is not None and not empty."""
    rows = [f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts if _has_value(value)]
    return f"<table><caption>{_cell(title)}</caption>{''.join(rows)}</table>"


def html_list(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption, a line of heads and rows."""
    head = "".join(f"<th>{_cell(name)}</th>" for name in heads)
    lines = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><caption>{_cell(title)}</caption><tr>{head}</tr>{lines}</table>"


def _has_value(value: object) -> bool:
    return value is not None and value != ""


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        value = value.strftime("%Y-%m-%d %H:%M:%S %Z")
    text = "" if value is None else str(value)
    return escape(text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…")
