"""Tools to plant mistakes into stores, and to reproduce races.

A mistake is a changed statement or function, planted before the stores are opened. A scenario runs against these stores
and calls `promise` for what must hold. Races are deterministic: a `Gate` stops a transaction at a statement, and a
`Background` call is known to have ended or to wait for a lock.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Self, TypeVar

import psycopg
import pytest

from tests.support.processes import PATIENCE_SECONDS, until
from windlass.clock import Clock, ManualClock
from windlass.stores.admin import Finding
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.admin import PostgresAdmin
from windlass.stores.sql.database import Answer, Transaction, Values
from windlass.stores.sql.store import SqlStore
from windlass.stores.sqlite import SQLiteStore
from windlass.stores.sqlite.admin import SQLiteAdmin
from windlass.stores.statements import Statement, parse

COMMIT = "COMMIT"
T = TypeVar("T")


class PromiseBroken(AssertionError):
    """A scenario has found a broken promise."""


def promise(kept: bool, what: str) -> None:
    """Raise `PromiseBroken` unless the condition holds. Only this counts as caught, no other error."""
    if not kept:
        raise PromiseBroken(what)


class Laboratory:
    """Stores on the same data, with the same mistakes planted."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.clock = ManualClock()
        self._monkeypatch = monkeypatch
        self._statements: dict[str, dict[str, Statement]] = {"sql": {}, "upkeep": {}}
        self._stores: list[SqlStore] = []
        self._connections: list[psycopg.Connection[Any]] = []
        self._gates: list[Gate] = []
        self._calls: list[Background[Any]] = []
        self._at_the_end: list[Callable[[], object]] = []

    @property
    def dialect(self) -> str:
        return "postgres" if self.url.startswith("postgresql:") else "sqlite"

    def rewrite(self, statement: str, change: Callable[[str], str], *, folder: str = "sql") -> None:
        """Change the text of a statement. It must differ afterwards."""
        old = files("windlass.stores").joinpath(self.dialect, folder, f"{statement}.sql").read_text()
        new = change(old)
        assert new != old, f"the mutant no longer finds its place in {statement}.sql"
        marker = "$" if self.dialect == "postgres" else "?"
        self._statements[folder][statement] = parse(statement, new, lambda number: f"{marker}{number}")

    def replace(self, statement: str, old: str, new: str) -> None:
        """Replace part of a statement."""
        self.rewrite(statement, lambda text: text.replace(old, new))

    def patch(self, where: ModuleType | type, name: str, value: object) -> None:
        """Replace an attribute that exists, or shadow a builtin in one of our modules."""
        self._monkeypatch.setattr(where, name, value, raising=not hasattr(builtins, name))

    def patch_item(self, where: dict[Any, Any], name: object, value: object) -> None:
        """Replace a setting."""
        self._monkeypatch.setitem(where, name, value)

    def open(self, clock: Clock | None = None) -> SqlStore:
        """Open another store on the data, with the laboratory's clock by default."""
        if self.dialect == "postgres":
            store: SqlStore = PostgresStore(self.url, clock=clock or self.clock, connections=3)
        else:
            store = SQLiteStore(self.url, clock=clock or self.clock)
        self._stores.append(store)
        database_of(store)._statements.update(self._statements["sql"])
        if self.dialect == "postgres":
            database_of(store)._lots._statements.update(self._statements["upkeep"])
        return store

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection to PostgreSQL itself."""
        self._connections.append(psycopg.connect(self.url))
        return self._connections[-1]

    def gate(self, store: SqlStore, statement: str) -> Gate:
        """Stop the store's next transaction that reaches this statement, just before it."""
        self._gates.append(Gate(store, statement))
        return self._gates[-1]

    def in_background(self, call: Callable[[], T]) -> Background[T]:
        """Run a call in its own thread."""
        self._calls.append(Background(call))
        return self._calls[-1]

    def await_standstill(self, *calls: Background[Any]) -> None:
        """Wait until each of these calls has either ended or waits for a lock."""
        if self.dialect == "sqlite":
            until(lambda: all(call.ended for call in calls) or self._waits_for_the_file(), "it has ended, or waits")
            return
        locked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        with psycopg.connect(self.url, autocommit=True) as connection:

            def still() -> bool:
                running = sum(not call.ended for call in calls)
                [(waiting,)] = connection.execute(locked).fetchall()
                return waiting >= running

            until(still, "everybody has ended or waits for a lock")

    def _waits_for_the_file(self) -> bool:
        """Return True if the kernel lists a waiter for the lock file."""
        inode = Path(f"{self.url}-lock").stat().st_ino
        waiting = (line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)
        return any(f":{inode} " in line for line in waiting)

    def check(self) -> list[Finding]:
        """Check the consistency of all rows, as an operator does."""
        admin = PostgresAdmin(self.url) if self.dialect == "postgres" else SQLiteAdmin(self.url)
        try:
            return admin.check()
        finally:
            admin.close()

    def at_the_end(self, call: Callable[[], object]) -> None:
        """Call a function before the stores are closed."""
        self._at_the_end.append(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self._gates:
            gate.open()
        for connection in self._connections:
            connection.close()
        for call in self._calls:
            call.join()
        for last in self._at_the_end:
            last()
        for store in self._stores:
            store.close()


def database_of(store: SqlStore) -> Any:
    """Return the database of a store, which only mutants may change."""
    return store._db


class Gate:
    """Stops one transaction of a store before one of its statements, or before its end (`COMMIT`).

    Earlier queries have been answered, and earlier statements have been executed.
    """

    def __init__(self, store: SqlStore, statement: str) -> None:
        self._statement = statement
        self._reached = threading.Event()
        self._open = threading.Event()
        intercept(store, self._pass)

    def await_somebody(self) -> None:
        """Wait until a transaction is stopped here."""
        assert self._reached.wait(PATIENCE_SECONDS), f"nobody came to {self._statement!r}"

    def open(self) -> None:
        """Let this and all later transactions pass."""
        self._open.set()

    def _pass(self, statement: str) -> None:
        if statement == self._statement and not self._reached.is_set():
            self._reached.set()
            assert self._open.wait(PATIENCE_SECONDS), "nobody opened the gate"


class Death(Exception):
    """Simulates the death of a process: nobody catches it, and nothing runs after it."""


def die_at(store: SqlStore, statement: str) -> None:
    """Make the store's process die at this statement."""

    def die(coming: str) -> None:
        if coming == statement:
            raise Death(statement)

    intercept(store, die)


def intercept(store: SqlStore, before: Callable[[str], None]) -> None:
    """Call a function before every statement of the store's transactions, and before their commit."""
    database = database_of(store)
    transact = database.transact

    def intercepted(work: Callable[[Transaction], T], **options: Any) -> T:
        def watched(tx: Transaction) -> T:
            result = work(Intercepted(tx, before))
            tx.query("now", now=None).rows()  # Waiting for an answer waits for everything sent before.
            before(COMMIT)
            return result

        return transact(watched, **options)

    database.transact = intercepted


class Intercepted:
    """A transaction that calls a function before it sends a statement."""

    def __init__(self, tx: Transaction, before: Callable[[str], None]) -> None:
        self._tx = tx
        self._before = before

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Answer:
        self._before(statement)
        return self._tx.query(statement, batch, **scalars)

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:  # An empty one is not sent at all.
            self._before(statement)
            self._tx.execute(statement, batch, **scalars)


class Background(Generic[T]):
    """A call that runs in a thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait until the call has ended."""
        self._thread.join(PATIENCE_SECONDS)
        assert self.ended, "the call never came back"

    def result(self) -> T:
        """Return the result of the call, or raise its exception."""
        self.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised again by `result`
            self._errors.append(error)
