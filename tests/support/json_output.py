"""Read what commands print with `--json`."""

from __future__ import annotations

from typing import Any


def without_store(document: dict[str, Any]) -> Any:
    """Return a document without the URL of its store, and a list that is its only other field as itself."""
    rest = {name: value for name, value in document.items() if name != "store"}
    [only, *more] = rest.values()
    return only if not more and isinstance(only, list) else rest
