"""What an audit entry keeps so that its change can be undone: the changed fields, before and after.

An operation that changes settings compares them with `compare_fields` and passes the result as the `undo` of its entry.
Its module has a function `restore`, which `undo` calls with the entry: it reads the present settings, lets `Reversal`
check that they are still those that the entry wrote, and writes the old ones together with an entry of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from windlass.core.task import TaskId
from windlass.operations.author import Author
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.redact import redact_texts
from windlass.stores.coordination import Entry, EntrySeen
from windlass.stores.protocol import Store

Fields: TypeAlias = dict[str, Any]
"""The fields of a document as JSON values. A field that is absent is None."""


class ChangedSince(Exception):
    """The settings are no longer those that the entry wrote."""


class FieldChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that a change wrote: their values before it and after it."""

    before: Fields
    after: Fields
    tasks: list[TaskId] = []
    """The tasks that were changed, if the subject of the entry does not name one."""

    def revert(self, present: Fields) -> Fields:
        """Return the present fields with the old values. Raise `ChangedSince` if one is not as the change left it."""
        if any(present.get(name) != value for name, value in self.after.items()):
            raise ChangedSince
        reverted = {**present, **self.before}
        return {name: value for name, value in reverted.items() if value is not None}


class UndoData(Struct, frozen=True, kw_only=True):
    """What the data of an audit entry says about undoing. Other data is ignored."""

    undo: FieldChange | None = None
    """What to undo; None if that is not possible."""
    undoes: int | None = None
    """The number of the entry that it undid."""
    action_id: str = ""
    """The action of a person that wrote the entry (`Author`)."""


def read_undo(entry: Entry) -> UndoData:
    """Return what an entry says about undoing."""
    return msgspec.json.decode(entry.data, type=UndoData) if entry.data else UndoData()


class Reversal(Struct, frozen=True):
    """An entry that is being undone, what it changed, and who undoes it."""

    entry: EntrySeen
    change: FieldChange
    author: Author

    def revert(self, present: Fields) -> Fields:
        """Return the present fields with their values before the entry. Raise `ChangedSince`."""
        return self.change.revert(present)

    def note(self, present: Fields, restored: Fields) -> Entry:
        """Return the entry of the undo, which can itself be undone."""
        return self.note_done(undo=compare_fields(present, restored))

    def note_done(self, *, whole: bool = True, **data: object) -> Entry:
        """Return the entry of the undo. One of only some tasks of the entry does not count as its undo."""
        number = self.entry.number
        text = f"undid {'' if whole else 'a part of '}#{number} ({self.entry.text})"
        return self.author.entry(self.entry.subject, "undone", text, undoes=number if whole else None, **data)


def to_fields(value: object) -> Fields:
    """Return a struct or document as JSON values."""
    return msgspec.json.decode(msgspec.json.encode(value), type=Fields)


def read_fields(text: str | None) -> Fields:
    """Return the fields of a stored document; none for None."""
    return {} if text is None else msgspec.json.decode(text, type=Fields)


def compare_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> FieldChange:
    """Return the fields that differ. The old values are kept without secrets, which a reason may repeat."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    old = {name: redact_texts(before.get(name)) for name in names}
    return FieldChange(before=old, after={name: after.get(name) for name in names})


def restore_control(store: Store, kind: str, name: str, reversal: Reversal) -> None:
    """Undo a change of a control. One that did not exist before the change is removed."""

    def attempt() -> None:
        control = find_control(store, kind, name)
        present = read_fields(None if control is None else control.value)
        restored = reversal.revert(present)
        value = msgspec.json.encode(restored).decode() if restored else None
        version = 0 if control is None else control.version
        write_control(store, kind, name, value, version=version, entries=[reversal.note(present, restored)])

    retry_on_conflict(f"{kind} {name}", attempt)
