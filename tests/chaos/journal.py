"""Records every change of a task in a real database with triggers, and reads them as the checker wants them.

Clients see a task before and after their calls; the journal has every step in between, in the transaction of the
change itself, whichever process made it. A change that is rolled back leaves no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any
from uuid import UUID

import apsw
import msgspec
import psycopg
from msgspec import Struct
from psycopg import sql

from tests.checker.records import Transition
from tests.support.builders import find_delays
from windlass.core.retry import Retry

COLUMNS = {
    "task": ("id", "state", "fence", "session", "generation", "attempts", "due"),
    "runnable": ("id",),
    "leased": ("id", "fence", "session"),
    "completed": ("id", "fence", "session"),
}
"""What is recorded of each table. The last three are the hot tables: a task in state `queued` is in exactly one."""
HOT = frozenset(COLUMNS) - {"task"}
QUEUED = "queued"

POSTGRES = """
CREATE SCHEMA journal;
CREATE TABLE journal.change (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at          float8 NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
    source      text NOT NULL,
    action      text NOT NULL,
    contents    jsonb NOT NULL
);
CREATE FUNCTION journal.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO journal.change (source, action, contents)
    SELECT TG_TABLE_NAME, TG_OP, jsonb_object_agg(key, value)
      FROM jsonb_each(to_jsonb(CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END)) WHERE key = ANY (TG_ARGV);
    RETURN NULL;
END $$;
"""
SQLITE = """
CREATE TABLE journal_change (
    number   INTEGER PRIMARY KEY,
    at       REAL NOT NULL DEFAULT (unixepoch('subsec')),
    source   TEXT NOT NULL,
    action   TEXT NOT NULL,
    contents TEXT NOT NULL
);
"""
SQLITE_TRIGGER = """
CREATE TRIGGER journal_{table}_{action} AFTER {action} ON {table} BEGIN
    INSERT INTO journal_change (source, action, contents) VALUES ('{table}', '{action}', json_object({values}));
END;
"""


class Change(Struct, frozen=True):
    """A row that was inserted, updated or deleted. For a deletion, `contents` is what the row was."""

    number: int
    transaction: int
    """0 on SQLite, whose triggers cannot see the transaction that they are in."""
    at: float
    source: str
    action: str
    contents: dict[str, Any]


def install(url: str) -> None:
    """Let a database with the Windlass tables record its changes from now on."""
    if url.startswith("sqlite:"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(SQLITE)
            for table, columns in COLUMNS.items():
                for action, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                    values = ", ".join(f"'{column}', {_as_json(f'{row}.{column}', column)}" for column in columns)
                    connection.execute(SQLITE_TRIGGER.format(table=table, action=action, values=values))
        return
    with psycopg.connect(url) as connection:
        connection.execute(POSTGRES)
        for table, columns in COLUMNS.items():
            connection.execute(
                sql.SQL(
                    "CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW "
                    "EXECUTE FUNCTION journal.record({})"
                ).format(sql.Identifier("windlass", table), sql.SQL(", ").join(map(sql.Literal, columns)))
            )


def _as_json(value: str, column: str) -> str:
    """Return the SQL that makes text of an id, which is bytes."""
    return f"hex({value})" if column in ("id", "session") else value


def read(url: str) -> list[Change]:
    """Return all changes so far, in the order in which they were made."""
    if url.startswith("sqlite:"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            rows = list(
                connection.execute("SELECT number, 0, at, source, action, contents FROM journal_change ORDER BY number")
            )
        return [Change(*row[:5], _read_ids(msgspec.json.decode(row[5]))) for row in rows]
    with psycopg.connect(url) as connection:
        return [
            Change(number, int(transaction), at, source, action, contents)
            for number, transaction, at, source, action, contents in connection.execute(
                "SELECT number, transaction::text, at, source, action, contents FROM journal.change ORDER BY number"
            )
        ]


def _read_ids(contents: dict[str, Any]) -> dict[str, Any]:
    return {
        column: (str(UUID(hex=value)) if value else None) if column in ("id", "session") else value
        for column, value in contents.items()
    }


class TaskHistory:
    """What is known of one task while its changes are replayed."""

    def __init__(self) -> None:
        self.task: dict[str, Any] | None = None
        """Its row. None before it was submitted, and after it was purged."""
        self.hot: dict[str, dict[str, Any]] = {}
        """The hot tables that it is in, each with its row there."""
        self.last: Transition | None = None
        self.transaction = 0

    @property
    def problem(self) -> str | None:
        """What is wrong with the tables that the task is in, if anything."""
        places = sorted(self.hot)
        wanted = self.task is not None and self.task["state"] == QUEUED
        if len(places) == wanted:
            return None
        return f"is {self.task['state'] if self.task else 'gone'} and in the tables {places}"


class Replay:
    """Replays the changes of all tasks, and collects their transitions."""

    def __init__(self, retries: Mapping[str, Retry], ended: Mapping[tuple[str, int], float]) -> None:
        self._retries = retries
        self._ended = ended
        self._histories: dict[str, TaskHistory] = {}
        self.transitions: list[Transition] = []
        self.problems: list[str] = []
        """Commits that left a task in two tables, or in none."""

    def add_all(self, changes: Iterable[Change]) -> None:
        """Replay changes in their order, to the end of the recording."""
        for change in changes:
            self._add(change)
        for id, history in self._histories.items():
            self._check(id, history)

    def _add(self, change: Change) -> None:
        id = change.contents["id"]
        history = self._histories.setdefault(id, TaskHistory())
        if change.transaction and history.transaction not in (0, change.transaction):
            self._check(id, history)
        history.transaction = change.transaction
        gone = change.action == "DELETE"
        if change.source in HOT:
            before = history.hot.pop(change.source, None)
            if not gone:
                history.hot[change.source] = change.contents
                if change.contents != before:  # Other columns of a lease may change.
                    self._arrive(history, change, change.source)
            return
        history.task = None if gone else change.contents
        if gone:
            history.last = None
            return
        state = "runnable" if change.contents["state"] == QUEUED else change.contents["state"]
        if history.last is not None and history.last.after == state:
            self._fill(history.last, change.contents)
        elif state != "runnable":
            self._arrive(history, change, state)

    def _arrive(self, history: TaskHistory, change: Change, state: str) -> None:
        """Record that a task is in another state. A task that is runnable at another place keeps its state."""
        row = history.task or {}
        before = "" if history.last is None else history.last.after
        if before == state == "runnable":
            return
        transition = Transition(
            at=change.at, transaction=change.transaction, task=change.contents["id"], before=before, after=state
        )
        self._fill(transition, row)
        if state in ("leased", "completed"):
            transition.fence, transition.session = change.contents["fence"], change.contents["session"]
        self.transitions.append(transition)
        history.last = transition

    def _fill(self, transition: Transition, row: Mapping[str, Any]) -> None:
        """Write into a transition what the row of the task says."""
        if not row:
            return
        transition.fence, transition.session = row["fence"], row["session"] or ""
        transition.generation, transition.attempts = row["generation"], row["attempts"]
        transition.due = row["due"] / 1e6
        if transition.after == "retrying":
            transition.at = self._ended.get((transition.task, transition.fence), transition.at)
            retry = self._retries.get(transition.task)
            if retry is not None:
                transition.retry = find_delays(retry, transition.attempts)

    def _check(self, id: str, history: TaskHistory) -> None:
        if history.problem is not None:
            self.problems.append(f"task {id} {history.problem} after transaction {history.transaction}")
