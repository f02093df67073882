"""The values for the templates, validated so that none can break the syntax of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.config import InvalidSettings

SHUTDOWN_SECONDS = 15
"""Seconds that a node gets after its drain before it is killed."""

_FORMS: Mapping[str, tuple[str, str]] = {
    "app": (r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "shop:app"),
    "image": (r"[a-z0-9][\w./:@-]*", "registry.example/shop:1.4"),
    "pool": (
        r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?",
        "mail (lower-case letters, digits and dashes)",
    ),
    "namespace": (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "production"),
    "command": (r"/[\w./@+-]+", "/opt/shop/venv/bin/windlass"),
    "folder": (r"/[\w./@+-]+", "/opt/shop"),
    "role": (r"[a-z_][a-z0-9_]{0,62}", "windlass (lower-case letters, digits and underscores)"),
    "database": (r"[a-z_][a-z0-9_]{0,62}", "windlass (lower-case letters, digits and underscores)"),
    "owner": (r"[a-z_][a-z0-9_]{0,62}", "windlass (lower-case letters, digits and underscores)"),
    "prefix": (r"[a-z_][a-z0-9_]{0,40}", "windlass (lower-case letters, digits and underscores)"),
    "store": (r"(sqlite|postgresql|postgres):[\w./:@?&=%+,~\[\]-]+", "postgresql://windlass@db.internal/shop"),
}


class Plan(Struct, frozen=True, kw_only=True):
    """One app, one of its pools, and where it runs."""

    app: str = "shop:app"
    image: str = "shop:latest"
    pool: str = "default"
    max: int = 8
    """Maximum workers of the pool on one node."""
    nodes: int = 10
    namespace: str = "default"
    drain: timedelta = timedelta(seconds=60)
    command: str = "/usr/local/bin/windlass"
    folder: str = "/opt/windlass"
    store: str | None = None
    role: str = "windlass"
    owner: str = "windlass"
    """The role that owns the tables."""
    prefix: str = "windlass"
    """The start of the names of the roles with fewer rights."""
    database: str = "windlass"

    def check(self) -> None:
        """Raise `InvalidSettings` with all invalid values together."""
        faults = [
            f"{field}={value!r} is invalid, use a value such as {example}"
            for field, (form, example) in _FORMS.items()
            if (value := getattr(self, field)) is not None and not re.fullmatch(form, value)
        ]
        if not 1 <= self.max <= 1_000:
            faults.append(f"max={self.max} is out of range (1 to 1000)")
        if not 1 <= self.nodes <= 10_000:
            faults.append(f"nodes={self.nodes} is out of range (1 to 10000)")
        if not timedelta(0) < self.drain <= timedelta(days=1):
            faults.append(f"drain={self.drain} is out of range (more than 0, at most a day)")
        if self.store is not None and urlsplit(self.store).password:
            faults.append("store contains a password; the generated file says where to put it instead")
        if faults:
            raise InvalidSettings("Invalid deployment: " + "; ".join(faults))

    @property
    def values(self) -> dict[str, str]:
        """The template values by name."""
        return {
            "app": self.app,
            "image": self.image,
            "pool": self.pool,
            "max": str(self.max),
            "nodes": str(self.nodes),
            "namespace": self.namespace,
            "drain": f"{self.drain.total_seconds():g}s",
            "grace": f"{self.drain.total_seconds() + SHUTDOWN_SECONDS:.0f}",
            "command": self.command,
            "folder": self.folder,
            "role": self.role,
            "owner": self.owner,
            "prefix": self.prefix,
            "database": self.database,
        }
