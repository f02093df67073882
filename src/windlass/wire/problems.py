"""The JSON shape of an error (RFC 9457)."""

from __future__ import annotations

from msgspec import Struct


class FieldProblem(Struct, frozen=True, kw_only=True):
    """One invalid field."""

    field: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `code` is stable and for programs, `detail` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = []
    id: str | None = None
    """The server's log has more under this id."""
    index: int | None = None
    """The position of the task in a batch, from 0."""
    line: int | None = None
    """The line of a stream, from 1."""
    keys: list[str] = []
    tasks: list[str] = []
    cycle: list[str] = []
    queue: str | None = None
