"""An act of a person in a SQL store: what is written about it with the change, and what a lost answer leaves open."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors import CommitUnknown, Conflict
from windlass.stores.coordination import Entry
from windlass.stores.sql.coordination import entry_rows
from windlass.stores.sql.database import Database, Transaction


class AuditedChange:
    """One act, which may take several transactions: its entries go with the first of them that changes anything."""

    def __init__(self, db: Database, entries: Sequence[Entry]) -> None:
        self._db = db
        self._unwritten = entry_rows(entries)
        self.unsure = False
        """The answer to a commit was lost: the next try may find what that one has written."""

    def note(self, tx: Transaction, changed: object) -> None:
        """Write the entries, if there is a change that they are about."""
        tx.execute("note", self._unwritten if changed else [], now=self._db.now())

    def committed(self, changed: object) -> None:
        """A transaction is through; whatever it noted is not noted again."""
        if changed:
            self._unwritten = []

    def recover(self) -> None:
        """Let a transaction whose answer was lost be tried again."""
        self.unsure = True

    def conflict(self, what: str) -> Conflict | CommitUnknown:
        """Nothing is as expected: somebody was here before; or the lost try has done it, and somebody came after."""
        if self.unsure:
            return CommitUnknown(f"{what} may have been changed as asked, and somebody has changed it since")
        return Conflict(what)
