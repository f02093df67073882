"""Handlers as people see them, and publishing those of workers in other languages."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.handler_schema import check_schema, secret_paths
from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.core.payload import json_object
from windlass.errors import InvalidTask, Refused
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope

MAX_HANDLERS = 5_000
MAX_TOTAL_BYTES = 8 * 2**20


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
    for each in manifest.handlers:
        _check_schemas(access, each, before.get(each.name))
    _check_total({**before, **{each.name: each for each in manifest.handlers}})
    changed = [each.name for each in manifest.handlers if not _is_same(each, before.get(each.name))]
    written = changed or [each.name for each in manifest.handlers]
    names = ", ".join(written[:20]) + (" and more" if len(written) > 20 else "")
    entry = author.entry("manifest", "published", f"published {names}", handlers=written[:100])
    store.publish(manifest, entries=[entry])
    return changed


def _is_same(info: HandlerInfo, seen: HandlerSeen | None) -> bool:
    fields = HandlerInfo.__struct_fields__
    return seen is not None and all(getattr(info, field) == getattr(seen, field) for field in fields)


def _check_total(handlers: Mapping[str, HandlerInfo]) -> None:
    """Refuse more handlers than a server can have in memory: it reads all of them every two seconds."""
    if len(handlers) > MAX_HANDLERS:
        raise InvalidTask(f"handlers: there would be {len(handlers):,}; at most {MAX_HANDLERS:,} are allowed")
    size = sum(len(each.parameters) + len(each.returns) + len(each.doc) for each in handlers.values())
    if size > MAX_TOTAL_BYTES:
        raise InvalidTask(f"handlers: all schemas together would have {size:,} bytes; the limit is {MAX_TOTAL_BYTES:,}")


def _check_schemas(access: Access, new: HandlerInfo, seen: HandlerSeen | None) -> None:
    """Refuse schemas that servers could not use, and those that would show what was marked as secret before."""
    for field in ("parameters", "returns"):
        schema = json_object(getattr(new, field))
        check_schema(f"{new.name}.{field}", schema)
        if seen is not None and not access.caller.may(Scope.ADMIN):
            shown = secret_paths(json_object(getattr(seen, field))) - secret_paths(schema)
            if shown:
                raise Refused(
                    "forbidden",
                    f"{new.name}.{field}{min(shown)} was published as secret. Tasks that have it would show it. "
                    "Keep the mark, or publish with a token that has the scope admin.",
                    field=field,
                )
