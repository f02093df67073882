"""Undo what an audit entry records: write the old settings back, if nobody has changed them since.

The audit log is the memory. An entry that can be undone has the old and the new values of what it changed. An undo
compares the present values with the new ones and writes the old ones and an entry of its own in one transaction. It
checks the limits of the caller as the change itself would.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from windlass.errors import NotAllowed, Refused, StoreError, UnknownEntry, WindlassError
from windlass.operations import breakers, bulk, crons, limits, pools, queues, tasks, tenants
from windlass.operations.access import Access
from windlass.operations.audit import PAGE, SCANNED
from windlass.operations.author import Author
from windlass.operations.redact import redact_entry
from windlass.operations.reversal import ChangedSince, Reversal, read_undo
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Store

log = logging.getLogger(__name__)

NEWEST = 100
"""Among how many entries those of an action are looked for after it."""
KINDS: Mapping[str, Callable[[Access, str, Reversal], int | None]] = {
    "queue": queues.restore,
    "tenant": tenants.restore,
    "limit": limits.restore,
    "pool": pools.restore,
    "breaker": breakers.restore,
    "cron": crons.restore,
    "task": tasks.restore,
    "tasks": bulk.restore,
}
"""What undoes an entry, by the kind of its subject. Of tasks that go back, it returns the number."""

REASONS: Mapping[str, str] = {
    "purged": "The tasks are deleted.",
    "dropped": "The tasks are deleted.",
    "retried": "A retry forgets how the task had ended. Cancel the task instead.",
    "edited": "The new task is submitted. Cancel it instead.",
    "ran": "The task is submitted. Cancel it instead.",
    "cancelled": f"Its tasks had started, or there were more than {bulk.MOST_RESTORED:,} of them. Retry them instead.",
    "undone": "Repeat the change instead.",
    "created": "Remove it instead.",
    "removed": "Create it again.",
    "changed": "The log does not keep arguments, because they may be secret. Change it again.",
    "revoked": "Create a new token.",
    "drained": "It exits. A pool replaces its workers; start a node again where it ran.",
    "stopped": "It exits. A pool replaces its workers; start a node again where it ran.",
}
"""Why entries with these actions cannot be undone, if they say nothing about undoing, and what to do instead."""


def undo(access: Access, number: int, author: Author) -> EntrySeen:
    """Undo an audit entry, and return it. Raise `UnknownEntry`.

    Raise `NotAllowed` if it cannot be undone, was undone before, or what it changed has been changed since. A caller
    who is limited to a tenant or a queue may not read the audit log: to such a caller, all of these are `UnknownEntry`,
    and the entry that is returned says only what was done for them.
    """
    entry = _find(access.store, number)
    try:
        restored = _undo(access, entry, author)
    except (Refused, NotAllowed, LookupError) as error:
        if access.caller.limited and isinstance(error, WindlassError):
            raise UnknownEntry(number) from None
        raise
    if not access.caller.limited:
        return redact_entry(entry)
    done = f"{entry.subject} is as it was" if restored is None else f"restored {restored:,} task{'s' * (restored != 1)}"
    return EntrySeen(number=number, at=access.now, subject=entry.subject, action="undone", text=done)


def can_undo(entry: EntrySeen) -> bool:
    """Return True if an entry says how to undo it. What it changed may have been changed since."""
    return read_undo(entry).undo is not None


def find_undoable(entries: Sequence[EntrySeen]) -> set[int]:
    """Return the numbers of the entries of a page, newest first, that can be undone, as far as the page shows.

    Those are left out that a newer entry of the page has undone, or that changed something which it changed too.
    """
    found: set[int] = set()
    newer: list[EntrySeen] = []
    for entry in entries:
        if can_undo(entry) and not any(_replaces(other, entry) for other in newer):
            found.add(entry.number)
        newer.append(entry)
    return found


def find_new(access: Access, action_id: str) -> list[int]:
    """Return the numbers of the entries of an action that was just made and that can be undone, newest first.

    Call it after the action, which stays made whatever happens here: if the store does not answer, return none.
    """
    try:
        newest = access.store.audit(limit=NEWEST)
    except StoreError as error:
        log.debug("cannot read what can be undone: %s", error)
        return []
    undoable = find_undoable(newest)
    own = [entry.number for entry in newest if read_undo(entry).action_id == action_id]
    return [number for number in own if number in undoable]


def _undo(access: Access, entry: EntrySeen, author: Author) -> int | None:
    kind, _, name = entry.subject.partition("/")
    change, store = read_undo(entry).undo, access.store
    if change is None:
        reason = REASONS.get(entry.action, "This kind of change cannot be undone.")
        raise NotAllowed(f"Entry {entry.number} ({redact_entry(entry).text}) cannot be undone. {reason}")
    _check_not_undone(store, entry)
    try:
        return KINDS[kind](access, name, Reversal(entry, change, author))
    except ChangedSince:
        _check_not_undone(store, entry)
        raise NotAllowed(f"Entry {entry.number} cannot be undone: {_describe_change(store, entry)}") from None


def _find(store: Store, number: int) -> EntrySeen:
    found = next(iter(store.audit(limit=1, before=number + 1)), None)
    if found is None or found.number != number:
        raise UnknownEntry(number)
    return found


def _check_not_undone(store: Store, entry: EntrySeen) -> None:
    done = next((other for other in _newer(store, entry) if read_undo(other).undoes == entry.number), None)
    if done is not None:
        raise NotAllowed(f"Entry {entry.number} was already undone by {done.by} (#{done.number}).")


def _describe_change(store: Store, entry: EntrySeen) -> str:
    """Say who has changed what an entry changed."""
    other = next((other for other in _newer(store, entry) if _replaces(other, entry)), None)
    if other is None:
        return f"{entry.subject} has changed since."
    seen = redact_entry(other)
    return f"{seen.by} has changed {entry.subject} since (#{seen.number}: {seen.text}). Undo #{seen.number} first."


def _newer(store: Store, entry: EntrySeen) -> Iterator[EntrySeen]:
    """Yield the newer entries about the same subject, newest first, up to `SCANNED`."""
    before = None
    for _ in range(SCANNED // PAGE):
        page = store.audit(entry.subject, limit=PAGE, before=before)
        for other in page:
            if other.number <= entry.number:
                return
            yield other
        if len(page) < PAGE:
            return
        before = page[-1].number


def _replaces(newer: EntrySeen, older: EntrySeen) -> bool:
    """Return True if a newer entry undid an older one, or changed a field that it changed too."""
    if newer.subject != older.subject:
        return False
    if read_undo(newer).undoes == older.number:
        return True
    return bool(_changed(newer) & _changed(older))


def _changed(entry: EntrySeen) -> set[object]:
    """Return what an entry changed: tasks, or fields of its subject."""
    change = read_undo(entry).undo
    return set() if change is None else {*change.tasks} or {*change.after}
