"""The bare statements on SQLite, through apsw."""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any
from uuid import UUID, uuid4

import apsw

from benchmarks.bare import Send
from benchmarks.drain import QUEUE
from benchmarks.recorded import Call
from windlass.clock import SystemClock
from windlass.stores.sqlite.database import BUSY_TIMEOUT_MS
from windlass.stores.statements import load

Lines = Sequence[tuple[Any, ...]]
CLAIMED = ("runnable", -1), ("leased", 1)
SETTLED = ("leased", -1), ("completed", 1)


class BareSQLite:
    """One connection with the store's settings and lock file, so that writers queue in the same way."""

    def __init__(self, path: str) -> None:
        self._text = {name: statement.text for name, statement in load("sqlite", "?").items()}
        self._scalars = {name: statement.scalars for name, statement in load("sqlite", "?").items()}
        self._lock_file = Path(f"{path}-lock").open("a")  # noqa: SIM115  # closed by `close`
        self._connection: Any = apsw.Connection(path, statementcachesize=200)  # its stubs are partly unknown
        self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        for pragma in ("journal_mode = wal", "synchronous = full", "temp_store = memory", "cache_size = -65536"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._session = uuid4().bytes
        now = SystemClock().now()
        self._one("open_session", session=self._session, node="bare", ttl=15_000_000, now=now, boot="", about="")

    def cycle(self, batch: int) -> int:
        """See `Bare`."""
        claimed = self._claim(batch)
        if claimed:
            self._settle(claimed)
        return len(claimed)

    def prepare(self, calls: Sequence[Call]) -> Send:
        """See `Bare`."""
        ready = [(call, self._lines(call)) for call in calls]

        def send() -> None:
            with self._transaction():
                for call, lines in ready:
                    self._many(call.statement, lines)

        return send

    def cpu(self) -> float:
        """See `Bare`. SQLite runs in this process."""
        return process_time()

    def close(self) -> None:
        """See `Bare`."""
        self._connection.close()
        self._lock_file.close()

    def _claim(self, batch: int) -> Lines:
        with self._transaction():
            now = SystemClock().now()
            rows = self._one("claim", queue=QUEUE, session=self._session, limit=batch, now=now)
            if rows:
                self._many("lease", [(row[2], 1, self._session, now) for row in rows])
                self._count(CLAIMED, len(rows))
        return rows

    def _settle(self, claimed: Lines) -> None:
        with self._transaction():
            now = SystemClock().now()
            self._one("now", now=now)
            self._many("lock_tasks", [(row[2],) for row in claimed])
            ends = [(row[2], 1, self._session, "completed", row[9], now, 1, 0, 0, None, None) for row in claimed]
            before = self._connection.total_changes()
            self._many("settle", ends)
            settled = self._connection.total_changes() - before
            self._count(SETTLED, len(claimed))
            self._many("announce", [(row[2], "completed") for row in claimed])
        assert settled == len(claimed), "the store sends other statements now"

    def _count(self, deltas: Sequence[tuple[str, int]], many: int) -> None:
        at = SystemClock().now()
        rows = [(QUEUE, "default", state, sign * many, at if sign > 0 else None) for state, sign in deltas]
        self._many("count", [(*row, None, None, None) for row in rows])

    def _one(self, statement: str, **scalars: object) -> Lines:
        values = tuple(scalars[name] for name in self._scalars[statement])
        return self._connection.execute(self._text[statement], values).fetchall()

    def _many(self, statement: str, lines: Lines) -> Lines:
        return self._connection.executemany(self._text[statement], lines).fetchall()

    def _lines(self, call: Call) -> Lines:
        """Return the parameters of a call by row, with ids as bytes."""
        fixed = [_bindable(call.scalars[name]) for name in self._scalars[call.statement]]
        return [(*map(_bindable, line), *fixed) for line in ([()] if call.batch is None else call.batch)]

    @contextmanager
    def _transaction(self) -> Generator[None]:
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def _bindable(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    return f'["{QUEUE}"]' if isinstance(value, list) else value
