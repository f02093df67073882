"""The response of `/healthz` and `/readyz`, on a node and on the HTTP server."""

from __future__ import annotations

from msgspec import Struct


class Part(Struct, frozen=True, kw_only=True):
    """One part of the process and its readiness."""

    name: str
    ready: bool
    text: str


class Health(Struct, frozen=True, kw_only=True):
    """The readiness of the process and of each of its parts."""

    ready: bool
    parts: list[Part]
