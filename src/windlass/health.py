"""What `/healthz` and `/readyz` answer, on a node and on the HTTP server."""

from __future__ import annotations

from msgspec import Struct


class Part(Struct, frozen=True, kw_only=True):
    """One part of the process, and whether it can do its work."""

    name: str
    ready: bool
    text: str


class Health(Struct, frozen=True, kw_only=True):
    """Whether the process can do its work, and which part cannot."""

    ready: bool
    parts: list[Part]
