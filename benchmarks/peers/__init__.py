"""Adapters of other libraries, written from their documentation, to compare them with Windlass in one run.

`benchmarks.workloads.adapter` describes what an adapter needs. If you know a faster correct configuration of one of
them on two cores, please add it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version

from benchmarks.progress import log_progress
from benchmarks.workloads.adapter import System

_PROCRASTINATE = ("-m", "procrastinate", "--app", "benchmarks.peers.procrastinate.app", "worker", "--concurrency", "20")
_PGQUEUER = ("-m", "benchmarks.peers.pgqueuer")
_CELERY = ("-m", "celery", "-A", "benchmarks.peers.celery", "worker", "-c", "2", "--prefetch-multiplier", "64")
_QUIET_CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")
_RQ = ("-m", "rq.cli", "worker", "--worker-class", "rq.SimpleWorker", "--url", "{url}", "--quiet")
_HUEY = ("-m", "huey.bin.huey_consumer", "benchmarks.peers.huey.huey", "-q", "-n", "-k", "process", "-w", "2")
_SAQ = ("-m", "saq", "benchmarks.peers.saq.settings", "--workers", "2", "--quiet")
_TASKIQ = ("-m", "taskiq", "worker", "benchmarks.peers.taskiq:broker", "-w", "2", "--log-level", "WARNING")


def _make_peer(name: str, store: str, configuration: str, *commands: tuple[str, ...], needs: tuple[str, ...]) -> System:
    return System(
        name=name,
        store=store,
        module=f"benchmarks.peers.{name}",
        needs=needs,
        commands=commands,
        configuration=configuration,
    )


PEERS: tuple[System, ...] = (
    _make_peer(
        "pgqueuer",
        "postgres",
        "two processes, batches of 250, asyncpg and uvloop",
        _PGQUEUER,
        _PGQUEUER,
        needs=("pgqueuer", "asyncpg", "uvloop"),
    ),
    _make_peer(
        "procrastinate",
        "postgres",
        "two processes of 20 coroutines, tables analyzed before a drain",
        _PROCRASTINATE,
        _PROCRASTINATE,
        needs=("procrastinate", "psycopg"),
    ),
    _make_peer("saq", "postgres", "two processes of 20 coroutines", _SAQ, needs=("saq", "psycopg")),
    _make_peer(
        "huey",
        "sqlite",
        "two processes, fsync on, polling every 10 to 100 ms",
        (*_HUEY, "-d", "0.01", "-m", "0.1"),
        needs=("huey",),
    ),
    _make_peer(
        "celery",
        "redis",
        "prefork of two, 64 prefetched for each, no results kept",
        (*_CELERY, *_QUIET_CELERY),
        needs=("celery", "redis"),
    ),
    _make_peer(
        "dramatiq",
        "redis",
        "two processes of 16 threads",
        ("-m", "dramatiq", "benchmarks.peers.dramatiq", "-p", "2", "-t", "16"),
        needs=("dramatiq", "redis"),
    ),
    _make_peer("huey", "redis", "two processes", _HUEY, needs=("huey", "redis")),
    _make_peer("rq", "redis", "two SimpleWorkers, which do not fork", _RQ, _RQ, needs=("rq", "redis")),
    _make_peer("saq", "redis", "two processes of 20 coroutines", _SAQ, needs=("saq", "redis")),
    _make_peer(
        "taskiq", "redis", "streams, two processes of 100 coroutines", _TASKIQ, needs=("taskiq", "taskiq_redis")
    ),
)


INSTALL = "pip install -r requirements/peers.txt"


def list_peers() -> list[str]:
    """Return the names of all peers."""
    return list(dict.fromkeys(peer.name for peer in PEERS))


def choose_peers(text: str) -> list[System]:
    """Return the installed peers that a command line asks for: `all`, `none` or names."""
    if text == "none":
        return []
    wanted = list_peers() if text == "all" else text.split(",")
    if unknown := set(wanted) - set(list_peers()):
        raise SystemExit(f"Unknown peer: {', '.join(unknown)}. Use some of {', '.join(list_peers())}.")
    chosen = [peer for peer in PEERS if peer.name in wanted]
    for peer in chosen:
        if peer.missing:
            log_progress(f"{peer.title} is skipped: {', '.join(peer.missing)} is not installed. Run {INSTALL}.")
    return [peer for peer in chosen if not peer.missing]


def list_versions(systems: Sequence[System]) -> Iterator[str]:
    """Yield the installed versions of the measured systems."""
    packages = dict.fromkeys(name.replace("_", "-") for system in systems for name in system.needs)
    if packages:
        yield ", ".join(f"{name} {version(name)}" for name in packages)
