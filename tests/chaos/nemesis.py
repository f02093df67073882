"""Breaks things on a seeded schedule, and records what it broke. The numbers are those of the list of faults."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random

import psutil
import psycopg

from tests.chaos.cluster import Cluster
from tests.checker.records import Fault
from tests.support.proxy import Fault as WireFault
from windlass.errors import WindlassError
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author

Break = Callable[["Nemesis"], None]


class Nemesis:
    """Draws faults from one seed and carries them out, one after the other, on whatever runs then."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Break something about every two seconds."""
        until = time.monotonic() + seconds
        names = [name for name, (stores, _) in FAULTS.items() if self.cluster.kind in stores]
        stop = threading.Event()
        while time.monotonic() < until and not stop.wait(self.rng.uniform(0.5, 2.5)):
            name = self.rng.choice(names)
            FAULTS[name][1](self)
            self.counts[name] += 1

    @contextmanager
    def recorded(self, kind: str, node: str = "") -> Iterator[None]:
        """Record a fault that lasts for the block."""
        fault = Fault(kind=kind, node=node, start=time.time())
        self.faults.append(fault)
        try:
            yield
        finally:
            fault.end = time.time()

    def pause(self, least: float, most: float) -> None:
        """Let a fault last for a while."""
        threading.Event().wait(self.rng.uniform(least, most))


def kill_worker(nemesis: Nemesis) -> None:
    """F1: kill -9 of one worker process."""
    with suppress(psutil.NoSuchProcess, IndexError):
        nemesis.rng.choice(nemesis.cluster.pick(nemesis.rng).process.workers()).kill()


def kill_node(nemesis: Nemesis) -> None:
    """F2: kill -9 of a node; another one of the same name comes back after a while."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("kill", member.name):
        member.process.kill()
        nemesis.pause(0.5, 3)
        member.start()


def drain_node(nemesis: Nemesis) -> None:
    """F35: SIGTERM, and sometimes a second one; then a restart."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("drain", member.name):
        member.process.send(signal.SIGTERM)
        if nemesis.rng.random() < 0.5:
            nemesis.pause(0.1, 0.5)
            with suppress(ProcessLookupError):
                member.process.send(signal.SIGTERM)
        member.process.process.wait(30)
        member.start()


def pause_worker(nemesis: Nemesis) -> None:
    """F6: SIGSTOP of a worker, for less or for longer than its session and its timeout."""
    with suppress(psutil.NoSuchProcess, IndexError):
        worker = nemesis.rng.choice(nemesis.cluster.pick(nemesis.rng).process.workers())
        worker.suspend()
        nemesis.pause(0.5, nemesis.cluster.ttl + 1)
        worker.resume()


def pause_node(nemesis: Nemesis) -> None:
    """F7: SIGSTOP of a node alone, for longer than its session: its workers go on and must not be believed."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("pause", member.name):
        os.kill(member.process.pid, signal.SIGSTOP)
        nemesis.pause(1, nemesis.cluster.ttl + 3)
        os.kill(member.process.pid, signal.SIGCONT)


def partition(nemesis: Nemesis) -> None:
    """F8: no connection to the database for a while."""
    with nemesis.recorded("partition"):
        nemesis.cluster.proxy.refuse()
        nemesis.cluster.proxy.reset()
        nemesis.pause(0.2, nemesis.cluster.ttl + 1)
        nemesis.cluster.proxy.admit()


def cut_connections(nemesis: Nemesis) -> None:
    """F8: every connection is reset once."""
    nemesis.cluster.proxy.reset()


def lose_answers(nemesis: Nemesis) -> None:
    """F9: the next commits arrive, and their answers do not."""
    nemesis.cluster.proxy.order(*[WireFault.ANSWER_LOST] * nemesis.rng.randint(1, 4))


def lose_commits(nemesis: Nemesis) -> None:
    """F9: the next commits never arrive."""
    nemesis.cluster.proxy.order(*[WireFault.NEVER_ARRIVES] * nemesis.rng.randint(1, 4))


def kill_backend(nemesis: Nemesis) -> None:
    """F4: kill -9 of a backend, after which PostgreSQL restarts all of them and recovers."""
    with nemesis.recorded("outage"), suppress(psutil.NoSuchProcess, IndexError, psycopg.OperationalError):
        backends = [
            child for child in psutil.Process(nemesis.cluster.server.pid).children() if "chaos" in _title(child)
        ]
        nemesis.rng.choice(backends).kill()
        nemesis.cluster.await_database()


def restart_database(nemesis: Nemesis) -> None:
    """F5: PostgreSQL stops, fast or at once, and starts again."""
    with nemesis.recorded("outage"):
        nemesis.cluster.server.stop(nemesis.rng.choice(("fast", "immediate")))
        nemesis.pause(0, 2)
        nemesis.cluster.server.start()


def hold_locks(nemesis: Nemesis) -> None:
    """F15: somebody else holds a lock on a table that every settle needs."""
    url = nemesis.cluster.direct_url
    with nemesis.recorded("outage"), suppress(psycopg.OperationalError), psycopg.connect(url) as conn:
        conn.execute("LOCK TABLE windlass.leased IN SHARE MODE")
        nemesis.pause(0.2, 2)


def terminate_backends(nemesis: Nemesis) -> None:
    """F18: an administrator ends all connections."""
    with suppress(psycopg.OperationalError), psycopg.connect(nemesis.cluster.direct_url, autocommit=True) as conn:
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        conn.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


def resize_pool(nemesis: Nemesis) -> None:
    """F36: the pool is resized by hand, again and again."""
    with suppress(WindlassError):
        for _ in range(nemesis.rng.randint(1, 3)):
            size = nemesis.rng.randint(1, 4)
            pools.set_size(Access(nemesis.cluster.observer), "default", size, author=Author("nemesis"))
            nemesis.pause(0.3, 1)


def _title(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


EVERYWHERE = frozenset({"sqlite", "postgres"})
POSTGRES = frozenset({"postgres"})
FAULTS: Mapping[str, tuple[frozenset[str], Break]] = {
    "F1 kill a worker": (EVERYWHERE, kill_worker),
    "F2 kill a node": (EVERYWHERE, kill_node),
    "F4 kill a backend": (POSTGRES, kill_backend),
    "F5 restart PostgreSQL": (POSTGRES, restart_database),
    "F6 pause a worker": (EVERYWHERE, pause_worker),
    "F7 pause a node": (EVERYWHERE, pause_node),
    "F8 partition": (POSTGRES, partition),
    "F8 reset connections": (POSTGRES, cut_connections),
    "F9 lose answers": (POSTGRES, lose_answers),
    "F9 lose commits": (POSTGRES, lose_commits),
    "F15 hold locks": (POSTGRES, hold_locks),
    "F18 terminate connections": (POSTGRES, terminate_backends),
    "F35 drain a node": (EVERYWHERE, drain_node),
    "F36 resize the pool": (EVERYWHERE, resize_pool),
}
"""The faults that are drawn. F21 to F23 and F37 (exit, segfault, hang, poison) are in the workload."""
