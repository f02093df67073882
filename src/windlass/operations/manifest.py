"""Handlers as people see them, and publishing those of workers in other languages."""

from __future__ import annotations

from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.operations.access import Access
from windlass.operations.author import Author


def handlers(access: Access) -> list[HandlerSeen]:
    """Return every handler that was ever published, by name."""
    return access.store.handlers()


def publish(access: Access, manifest: Manifest, author: Author) -> list[str]:
    """Publish handlers. Return the names of those that are new or have changed.

    The store writes the audit entry only if one has: another node may publish the same handlers at the same time.
    """
    manifest = manifest.checked()
    store = access.whole_store
    before = {each.name: each for each in store.handlers()}
    changed = [each.name for each in manifest.handlers if not _is_same(each, before.get(each.name))]
    written = changed or [each.name for each in manifest.handlers]
    names = ", ".join(written[:20]) + (" and more" if len(written) > 20 else "")
    entry = author.entry("manifest", "published", f"published {names}", handlers=written[:100])
    store.publish(manifest, entries=[entry])
    return changed


def _is_same(info: HandlerInfo, seen: HandlerSeen | None) -> bool:
    fields = HandlerInfo.__struct_fields__
    return seen is not None and all(getattr(info, field) == getattr(seen, field) for field in fields)
