"""Faults of processes: nodes, their workers, the server, workers that speak HTTP."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

from tests.chaos.cluster import NEWER, OLDER
from tests.chaos.nemesis import STARTED_SECONDS, Nemesis, fault
from windlass.errors import NotAllowed, WindlassError
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author


@fault("F1 kill a worker")
def kill_worker(nemesis: Nemesis) -> None:
    """Kill -9 of one worker process."""
    with suppress(psutil.NoSuchProcess, IndexError):
        nemesis.rng.choice(nemesis.cluster.pick(nemesis.rng).process.workers()).kill()


@fault("F2 kill a node")
def kill_node(nemesis: Nemesis) -> None:
    """Kill -9 of a node; another one of the same name comes back after a while."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("kill", member.name, settles=STARTED_SECONDS):
        member.process.kill()
        nemesis.pause(0.5, 3)
        member.start()


@fault("F2 kill a worker that speaks HTTP")
def kill_http_worker(nemesis: Nemesis) -> None:
    """Kill -9 of a worker with a session of its own. Its supervisor starts it again at once."""
    worker = nemesis.rng.choice(nemesis.cluster.http_workers)
    with nemesis.recorded("kill", worker.name, settles=STARTED_SECONDS):
        worker.kill()


@fault("F3 kill the server")
def kill_server(nemesis: Nemesis) -> None:
    """Kill -9 of the server, with submits, claims and reports under way. Its supervisor starts it again."""
    with nemesis.recorded("kill", "server", settles=STARTED_SECONDS):
        nemesis.cluster.http.kill()


@fault("F6 pause a worker")
def pause_worker(nemesis: Nemesis) -> None:
    """SIGSTOP of a worker, for less or for longer than its session and its timeout."""
    with suppress(psutil.NoSuchProcess, IndexError):
        worker = nemesis.rng.choice(nemesis.cluster.pick(nemesis.rng).process.workers())
        worker.suspend()
        nemesis.pause(0.5, nemesis.cluster.ttl + 1)
        worker.resume()


@fault("F6 pause a worker that speaks HTTP")
def pause_http_worker(nemesis: Nemesis) -> None:
    """SIGSTOP of a worker with a session of its own."""
    worker = nemesis.rng.choice(nemesis.cluster.http_workers)
    with nemesis.recorded("pause", worker.name):
        worker.process.send_signal(signal.SIGSTOP)
        nemesis.pause(1, nemesis.cluster.ttl + 2)
        worker.process.send_signal(signal.SIGCONT)


@fault("F7 pause a node")
def pause_node(nemesis: Nemesis) -> None:
    """SIGSTOP of a node alone, for longer than its session: its workers go on and must not be believed."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("pause", member.name):
        os.kill(member.process.pid, signal.SIGSTOP)
        nemesis.pause(1, nemesis.cluster.ttl + 3)
        os.kill(member.process.pid, signal.SIGCONT)


@fault("F33 two nodes with one name")
def start_twin(nemesis: Nemesis) -> None:
    """A second node of the same name runs for a while and is drained."""
    twin = nemesis.cluster.pick(nemesis.rng).start_twin()
    nemesis.pause(1, 4)
    twin.terminate()


@fault("F34 restart a node with the other version")
def change_version(nemesis: Nemesis) -> None:
    """A rolling upgrade, or its rollback: a node is drained and comes back with more or fewer handlers."""
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("drain", member.name, settles=STARTED_SECONDS):
        member.process.terminate()
        member.version = OLDER if member.version == NEWER else NEWER
        member.start()


@fault("F35 drain a node")
def drain_node(nemesis: Nemesis) -> None:
    """SIGTERM, and a restart. The checker holds a drain that ended well to its promise.

    The node does not answer for sessions that it has dropped before, because it could not renew them in time. The store
    may still have them: a renewal or a claim that was under way can arrive after a fault of the network.
    """
    member = nemesis.cluster.pick(nemesis.rng)
    with nemesis.recorded("drain", member.name, settles=STARTED_SECONDS) as record:
        ended = member.process.events("SessionEnded")
        dropped = {event["session"] for event in ended if event["why"] != "closed"}
        held = tuple(session for session in record.sessions if session not in dropped)

        def drain() -> None:
            if member.process.terminate() != 0:
                raise NotAllowed(f"{member.name} ended with {member.process.process.returncode}")

        nemesis.history.call("nemesis", "drain", (), drain, node=member.name, sessions=held)
        member.start()


@fault("F35 drain a node without patience")
def drain_twice(nemesis: Nemesis) -> None:
    """SIGTERM twice, or SIGTERM and SIGKILL; then a restart."""
    member = nemesis.cluster.pick(nemesis.rng)
    kind = nemesis.rng.choice(("drain", "kill"))
    with nemesis.recorded(kind, member.name, settles=STARTED_SECONDS):
        member.process.send(signal.SIGTERM)
        nemesis.pause(0.1, 0.5)
        with suppress(ProcessLookupError):
            member.process.send(signal.SIGTERM if kind == "drain" else signal.SIGKILL)
        member.process.process.wait(30)
        member.start()


@fault("F36 resize the pool")
def resize_pool(nemesis: Nemesis) -> None:
    """The pool is resized by hand, again and again."""
    with suppress(WindlassError):
        for _ in range(nemesis.rng.randint(1, 3)):
            size = nemesis.rng.randint(1, 4)
            pools.set_size(Access(nemesis.cluster.observer), "default", size, author=Author("nemesis"))
            nemesis.pause(0.3, 1)
