"""Administration of a PostgreSQL database: status, integrity checks, and copies of the schema `windlass`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, cast

import psycopg
from psycopg import IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict

from windlass.errors import NotAllowed
from windlass.stores.admin import BATCH, PROMISES, TABLES, Advance, Finding, Rights, Rows, Status, Table, found
from windlass.stores.migrate import migrations
from windlass.stores.postgres.address import connection_info
from windlass.stores.postgres.database import translated
from windlass.stores.postgres.schema import applied
from windlass.stores.postgres.transaction import Connection
from windlass.stores.statements import load

_FACTS = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_level",
    "max_connections",
    "autovacuum",
    "default_transaction_isolation",
)


VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")


class PostgresAdmin:
    """Administration of a database, through one connection without timeouts."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._statements = load("postgres", "$", folder="inspection")
        info = connection_info(url, name="windlass-admin", settings={"statement_timeout": "0"})
        with _errors():
            self._connection: Connection = psycopg.connect(info, autocommit=True)

    def status(self) -> Status:
        with _errors():
            schema = applied(self._connection)
            [(size,)] = self._rows("SELECT pg_database_size(current_database())")
            return Status(
                kind="postgresql",
                version=self._fact("server_version"),
                schema=schema.version,
                compatible_from=schema.compatible_from,
                newest=migrations("postgres")[-1].version,
                bytes=size,
                tasks={state: int(count) for state, count in self._ask("counts_by_state")} if schema.version else {},
                sessions=self._ask("live_sessions")[0][0] if schema.version else 0,
                facts=self._facts(),
            )

    def rights(self) -> Rights:
        with _errors():
            [(role, superuser)] = self._rows(
                "SELECT current_user::text, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
            )
            verbs = {
                table: frozenset(verb for verb, may in zip(VERBS, rights, strict=True) if may)
                for table, *rights in self._ask("rights")
            }
        return Rights(role=role, superuser=superuser, verbs=verbs)

    def clock(self) -> int:
        with _errors():
            return int(self._rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def check(self) -> list[Finding]:
        with _errors():
            return [
                finding for check in PROMISES if check in self._statements for finding in found(check, self._ask(check))
            ]

    def backup(self, to: str, advance: Advance) -> None:
        given = conninfo_to_dict(self._url)
        where = {"host": "--host", "port": "--port", "user": "--username", "dbname": "--dbname"}
        words = [f"{flag} {given[name]}" for name, flag in where.items() if given.get(name)]
        command = " ".join(["pg_dump --format=custom --schema=windlass", *words, f"--file {to}"])
        raise NotAllowed(
            f"Use PostgreSQL's own tool: {command}   (after pg_restore, raise the epoch: `windlass db raise-epoch`)"
        )

    @contextmanager
    def reading(self) -> Generator[PostgresRows]:
        with _errors(), self._transaction(IsolationLevel.REPEATABLE_READ):
            yield PostgresRows(self._connection, self._statements)

    @contextmanager
    def writing(self) -> Generator[PostgresRows]:
        with _errors(), self._transaction(IsolationLevel.READ_COMMITTED):
            yield PostgresRows(self._connection, self._statements)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self, level: IsolationLevel) -> Generator[None]:
        self._connection.isolation_level = level
        with self._connection.transaction():
            yield

    def _ask(self, statement: str) -> list[Any]:
        return self._rows(cast("LiteralString", self._statements[statement].text))

    def _rows(self, text: LiteralString) -> list[Any]:
        return self._connection.execute(text).fetchall()

    def _fact(self, name: str) -> str:
        [(value,)] = self._connection.execute("SELECT current_setting(%s, true)", [name]).fetchall()
        return str(value)

    def _facts(self) -> dict[str, str]:
        [(standby, used)] = self._rows(
            "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
        )
        facts = {name: self._fact(name) for name in _FACTS}
        [(attached, hidden)] = self._ask("standbys")
        return {
            **facts,
            "in_recovery": "on" if standby else "off",
            "connections_used": str(used),
            "standbys": "hidden" if hidden else str(attached),
        }


class PostgresRows:
    """All rows of a database, read or written in one transaction."""

    def __init__(self, connection: Connection, statements: Any) -> None:
        self._connection, self._statements = connection, statements

    def epoch(self) -> int:
        return self._ask("read_epoch")[0][0]

    def count(self, table: Table) -> int:
        [(count,)] = self._connection.execute(sql.SQL("SELECT count(*) FROM {}").format(_name(table))).fetchall()
        return count

    def rows(self, table: Table) -> Iterator[Rows]:
        query = sql.SQL("SELECT {} FROM {}").format(_columns(table), _name(table))
        with self._connection.cursor("windlass_copy") as cursor:
            cursor.execute(query)
            while batch := cursor.fetchmany(BATCH):
                yield batch

    def is_empty(self) -> bool:
        return bool(self._ask("is_empty")[0][0])

    def write(self, table: Table, rows: Rows) -> None:
        query = sql.SQL("COPY {} ({}) FROM STDIN").format(_name(table), _columns(table))
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            for row in rows:
                copy.write_row(row)

    def end(self, epoch: int) -> None:
        self._connection.execute("UPDATE windlass.meta SET epoch = %s", [epoch])
        self._connection.execute(
            "SELECT setval(pg_get_serial_sequence('windlass.audit', 'number'), "
            "greatest(1, (SELECT coalesce(max(number), 0) + 1 FROM windlass.audit)), false)"
        )

    def _ask(self, statement: str) -> list[Any]:
        return self._connection.execute(cast("LiteralString", self._statements[statement].text)).fetchall()


def _name(table: Table) -> sql.Identifier:
    assert table in TABLES
    return sql.Identifier("windlass", table.name)


def _columns(table: Table) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, table.columns))


@contextmanager
def _errors() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error
