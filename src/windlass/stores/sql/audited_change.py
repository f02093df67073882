"""Audit entries of an operator's change in a SQL store, and what to do if the answer to its commit is lost."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors import CommitUnknown, Conflict
from windlass.stores.coordination import Entry
from windlass.stores.sql.coordination import entry_rows
from windlass.stores.sql.database import Database, Transaction


class AuditedChange:
    """A change by an operator. Its entries are written by the first of its transactions that changes anything."""

    def __init__(self, db: Database, entries: Sequence[Entry]) -> None:
        self._db = db
        self._unwritten = entry_rows(entries)
        self.unsure = False
        """True after the answer to a commit was lost: the next try may find what that commit wrote."""

    def note(self, tx: Transaction, changed: object) -> None:
        """Write the entries if something changed."""
        tx.execute("note", self._unwritten if changed else [], now=self._db.now())

    def committed(self, changed: object) -> None:
        """Call this after a commit, so that the entries are not written again."""
        if changed:
            self._unwritten = []

    def recover(self) -> None:
        """Allow another try after the answer to a commit was lost."""
        self.unsure = True

    def conflict(self, what: str) -> Conflict | CommitUnknown:
        """Return the error for an unexpected version: `CommitUnknown` if an earlier try may have been committed."""
        if self.unsure:
            return CommitUnknown(f"{what} may have been changed as requested, and it has been changed since")
        return Conflict(what)
