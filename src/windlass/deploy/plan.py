"""What the files are made for: names and numbers, checked, so that none can break out of its place in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.config import InvalidSettings

LAST_WORDS = 15
"""Seconds that a node has beyond its drain to say its last words, before whoever stops it kills it."""

_FORMS: Mapping[str, tuple[str, str]] = {
    "app": (r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "shop:app"),
    "image": (r"[a-z0-9][\w./:@-]*", "registry.example/shop:1.4"),
    "pool": (
        r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?",
        "mail; lower-case letters, digits and dashes, as a pod's name takes",
    ),
    "namespace": (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "production"),
    "command": (r"/[\w./@+-]+", "/opt/shop/venv/bin/windlass"),
    "folder": (r"/[\w./@+-]+", "/opt/shop"),
    "store": (r"(sqlite|postgresql|postgres):[\w./:@?&=%+,~\[\]-]+", "postgresql://windlass@db.internal/shop"),
}


class Plan(Struct, frozen=True, kw_only=True):
    """One app, one pool of it, and where it runs."""

    app: str = "shop:app"
    image: str = "shop:latest"
    pool: str = "default"
    most: int = 8
    """Workers of the pool on one node."""
    nodes: int = 10
    namespace: str = "default"
    drain: timedelta = timedelta(seconds=60)
    command: str = "/usr/local/bin/windlass"
    folder: str = "/opt/windlass"
    store: str | None = None

    def check(self) -> None:
        """Refuse what cannot be written into a file, all faults together."""
        faults = [
            f"{field}={value!r} does not fit; write something like {example}"
            for field, (form, example) in _FORMS.items()
            if (value := getattr(self, field)) is not None and not re.fullmatch(form, value)
        ]
        if not 1 <= self.most <= 1_000:
            faults.append(f"max={self.most} is out of range; give 1 to 1000")
        if not 1 <= self.nodes <= 10_000:
            faults.append(f"nodes={self.nodes} is out of range; give 1 to 10000")
        if not timedelta(0) < self.drain <= timedelta(days=1):
            faults.append(f"drain={self.drain} is out of range; give more than 0 and at most a day")
        if self.store is not None and urlsplit(self.store).password:
            faults.append("store has a password, which does not belong in this file; the file says where to put it")
        if faults:
            raise InvalidSettings("deploy: " + "; ".join(faults))

    @property
    def values(self) -> dict[str, str]:
        """What stands in the templates, by name."""
        return {
            "app": self.app,
            "image": self.image,
            "pool": self.pool,
            "most": str(self.most),
            "nodes": str(self.nodes),
            "namespace": self.namespace,
            "drain": f"{self.drain.total_seconds():g}s",
            "grace": f"{self.drain.total_seconds() + LAST_WORDS:.0f}",
            "command": self.command,
            "folder": self.folder,
        }
