"""The bare statements on PostgreSQL, through psycopg, in the same pipelines as the store."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import uuid4

import psutil
import psycopg
from psycopg import RawCursor

from benchmarks.bare import Send
from benchmarks.drain import QUEUE
from benchmarks.recorded import Call
from windlass.stores.postgres.arrays import array
from windlass.stores.statements import load

Lines = Sequence[tuple[Any, ...]]


class BarePostgres:
    """One connection without a connection pool."""

    def __init__(self, url: str) -> None:
        self._statements = load("postgres", "$")
        self._texts = {name: statement.text.encode() for name, statement in self._statements.items()}
        self._connection = psycopg.connect(url, application_name="bare")
        self._session = uuid4()
        with self._transaction():
            self._run("open_session", session=self._session, node="bare", ttl=15_000_000, now=None, boot="", about="")

    def cycle(self, batch: int) -> int:
        """See `Bare`."""
        claimed = self._claim(batch)
        if claimed:
            self._settle(claimed)
        return len(claimed)

    def prepare(self, calls: Sequence[Call]) -> Send:
        """See `Bare`."""
        ready = [(call, self._columns(call)) for call in calls]

        def send() -> None:
            with self._transaction():
                for call, columns in ready:
                    cursor = self._run(call.statement, *columns, **call.scalars)
                    if call.answered:
                        cursor.fetchall()

        return send

    def cpu(self) -> float:
        """See `Bare`. Returns the CPU time of the server process of this connection."""
        used = psutil.Process(self._connection.info.backend_pid).cpu_times()
        return used.user + used.system

    def close(self) -> None:
        """See `Bare`."""
        self._connection.close()

    def _claim(self, batch: int) -> Lines:
        with self._transaction():
            rows = self._run("claim", queue=QUEUE, session=self._session, limit=batch, now=None).fetchall()
            if rows:
                many = len(rows)
                self._run("lease", _ids(rows), repeat("1", many), session=self._session, now=rows[0][1])
                self._run("count", *_deltas("runnable", "leased", many, rows[0][1], "1"))
        return rows

    def _settle(self, claimed: Lines) -> None:
        ids, many = _ids(claimed), len(claimed)
        ones, zeros, nulls = (repeat(value, many) for value in ("1", "0", "NULL"))
        completed, session = repeat("completed", many), repeat(self._session.hex, many)
        with self._transaction():
            asked = self._run("now", now=None)
            held = self._run("lock_tasks", ids)
            [(now,)] = asked.fetchall()
            held.fetchall()
            finished = "{" + ",".join([str(now)] * many) + "}"
            settled = self._run(
                "settle", ids, ones, session, completed, ones, finished, ones, zeros, zeros, nulls, nulls
            )
            self._run("count", *_deltas("leased", "completed", many, now, "NULL"))
            self._run("announce", ids, completed)
        assert settled.rowcount == many, "the store sends other statements now"

    def _run(self, statement: str, *columns: str, **scalars: object) -> RawCursor[tuple[Any, ...]]:
        values = [*columns, *(scalars[name] for name in self._statements[statement].scalars)]
        return RawCursor(self._connection).execute(self._texts[statement], values)

    def _columns(self, call: Call) -> list[str]:
        """Return the batch of a call as array parameters."""
        if not call.batch:
            return []
        types = [column.type for column in self._statements[call.statement].batch]
        return [array(type, values) for type, values in zip(types, zip(*call.batch, strict=True), strict=True)]

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._connection.pipeline():
            yield
            self._connection.commit()


def _ids(rows: Lines) -> str:
    return "{" + ",".join([row[2].hex for row in rows]) + "}"


@cache
def repeat(value: str, many: int) -> str:
    """Return an array that repeats one value."""
    return "{" + ",".join([value] * many) + "}"


def _deltas(before: str, after: str, many: int, at: int, wait: str) -> tuple[str, ...]:
    moved = repeat(QUEUE, 2), repeat("default", 2), f"{{{before},{after}}}", f"{{{-many},{many}}}"
    waits = f"{{NULL,{wait}}}"
    return *moved, f"{{NULL,{at}}}", repeat("NULL", 2), waits, waits
