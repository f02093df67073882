"""Faults of PostgreSQL, of PgBouncer, and of people who use the database by hand."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import psutil
import psycopg

from tests.chaos.cluster import MAX_CONNECTIONS
from tests.chaos.nemesis import POSTGRES, Nemesis, fault

LOCK_LEASED = "LOCK TABLE windlass.leased IN SHARE MODE"
LOCK_TASKS = "LOCK TABLE windlass.task IN SHARE MODE"


@fault("F4 kill a backend", on=POSTGRES)
def kill_backend(nemesis: Nemesis) -> None:
    """Kill -9 of a backend, after which PostgreSQL restarts all of them and recovers."""
    server = psutil.Process(nemesis.cluster.server.pid)
    with nemesis.recorded("outage"), suppress(psutil.NoSuchProcess, IndexError):
        nemesis.rng.choice([child for child in server.children() if "windlass" in _title(child)]).kill()
        nemesis.cluster.await_database()


@fault("F5 restart PostgreSQL", on=POSTGRES)
def restart_database(nemesis: Nemesis) -> None:
    """PostgreSQL stops, fast or at once, and starts again."""
    with nemesis.recorded("outage"):
        nemesis.cluster.server.stop(nemesis.rng.choice(("fast", "immediate")))
        nemesis.pause(0, 2)
        nemesis.cluster.server.start()


@fault("F15 hold locks", on=POSTGRES)
def hold_locks(nemesis: Nemesis) -> None:
    """Somebody else holds a lock on a table that every settle needs."""
    with nemesis.recorded("outage"), suppress(psycopg.OperationalError), connect(nemesis) as conn:
        conn.execute(LOCK_LEASED)
        nemesis.pause(0.2, 2)


@fault("F16 deadlock", on=POSTGRES)
def deadlock(nemesis: Nemesis) -> None:
    """Somebody else locks two tables in the order opposite to ours; PostgreSQL ends one of the two."""
    with nemesis.recorded("outage"), suppress(psycopg.OperationalError), connect(nemesis) as conn:
        conn.execute(LOCK_LEASED)
        nemesis.pause(0.3, 0.6)
        conn.execute(LOCK_TASKS)


@fault("F17 use up the connections", on=POSTGRES)
def use_up_connections(nemesis: Nemesis) -> None:
    """Somebody else takes every free connection of the server."""
    with nemesis.recorded("outage"), ExitStack() as stack, suppress(psycopg.OperationalError):
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connect(nemesis))
        nemesis.pause(1, 4)


@fault("F18 terminate connections", on=POSTGRES)
def terminate_backends(nemesis: Nemesis) -> None:
    """An administrator ends all connections."""
    with suppress(psycopg.OperationalError), connect(nemesis) as conn:
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        conn.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


@fault("F18 restart PgBouncer", on=POSTGRES, needs="bouncer")
def restart_bouncer(nemesis: Nemesis) -> None:
    """PgBouncer is killed and started again."""
    nemesis.cluster.bouncer.restart()


@fault("F18 pause PgBouncer", on=POSTGRES, needs="bouncer")
def pause_bouncer(nemesis: Nemesis) -> None:
    """PgBouncer reloads its settings, then lets nobody through for a while."""
    url, behind = nemesis.cluster.bouncer.url("pgbouncer"), nemesis.cluster.members[-1].name
    with nemesis.recorded("partition", behind), psycopg.connect(url, autocommit=True) as console:
        for command in (b"RELOAD", b"PAUSE"):
            console.execute(command)
        nemesis.pause(0.5, nemesis.cluster.ttl + 1)
        console.execute(b"RESUME")


@fault("F19 a transaction that stays open", on=POSTGRES)
def open_transaction(nemesis: Nemesis) -> None:
    """Somebody else leaves a transaction open, so that nothing dead can be removed, until this is drawn again."""
    nemesis.lasting.close()
    with suppress(psycopg.OperationalError):
        conn = connect(nemesis)
        nemesis.lasting.callback(conn.close)
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("SELECT count(*) FROM windlass.task")


def connect(nemesis: Nemesis) -> psycopg.Connection:
    """Connect to the database as a person would. The block that it is used in ends with a commit."""
    return psycopg.connect(nemesis.cluster.direct_url, connect_timeout=5)


def _title(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""
