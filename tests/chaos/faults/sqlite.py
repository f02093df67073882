"""Faults of the file in which SQLite keeps everything."""

from __future__ import annotations

from contextlib import closing, suppress

import apsw

from tests.chaos.nemesis import SQLITE, Nemesis, fault


@fault("F40 hold the lock of SQLite", on=SQLITE)
def hold_lock(nemesis: Nemesis) -> None:
    """Another program writes to the file and takes its time."""
    with nemesis.recorded("outage"), closing(connect(nemesis)) as conn, suppress(apsw.BusyError):
        conn.execute("BEGIN IMMEDIATE")
        nemesis.pause(0.5, nemesis.cluster.ttl + 1)
        conn.execute("ROLLBACK")


@fault("F40 a reader that keeps the log of SQLite growing", on=SQLITE)
def keep_reading(nemesis: Nemesis) -> None:
    """Another program reads and never ends, so that no checkpoint can finish, until this is drawn again (also F19)."""
    nemesis.lasting.close()
    conn = connect(nemesis)
    nemesis.lasting.callback(conn.close)
    with suppress(apsw.BusyError):
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM task").fetchall()


def connect(nemesis: Nemesis) -> apsw.Connection:
    """Open the file as another program would."""
    conn = apsw.Connection(nemesis.cluster.direct_url.removeprefix("sqlite:///"))
    conn.set_busy_timeout(5_000)
    return conn
