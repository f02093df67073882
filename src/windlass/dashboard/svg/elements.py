"""Build SVG and HTML elements. All text and all attribute values are escaped here and nowhere else."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

from windlass.operations.presentation import escape_line

Attribute: TypeAlias = str | float | bool | None


class Markup(str):
    """Markup that a template inserts as it is. Only `element`, `join` and `text` make it."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the markup for Jinja, which would escape a plain string."""
        return str(self)


def element(name: str, *children: str, **attributes: Attribute) -> Markup:
    """Return an element. Children that are not `Markup` are escaped as text.

    In the names of attributes, `_` stands for `-`, and a trailing `_` is dropped, as in `class_`. An attribute of None
    or False is left out; one of True has no value.

    >>> str(element("text", "a < b", class_="label", text_anchor="end", x=1.26))
    '<text class="label" text-anchor="end" x="1.3">a &lt; b</text>'
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(f" {attribute}" if value is True else f' {attribute}="{_format(value)}"')
    return Markup(f"{''.join(parts)}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Return the children one after another. Those that are not `Markup` are escaped as text."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children))


def text(value: str) -> Markup:
    """Return text as markup. Control characters, and those that change the direction of text, become visible."""
    return Markup(escape(escape_line(value)))


def number(value: float) -> str:
    """Return a coordinate with at most one decimal.

    >>> number(12.0), number(0.25), number(-0.01)
    ('12', '0.2', '0')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def _format(value: str | float) -> str:
    return number(value) if isinstance(value, int | float) else text(value)
