"""Adapters of other libraries, written from their documentation, so that one run puts them beside Windlass.

What an adapter holds is said in `benchmarks.workloads.adapter`. Whoever knows a faster correct configuration of one of
them on two cores is asked to put it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version

from benchmarks.workloads.adapter import System

_PROCRASTINATE = ("-m", "procrastinate", "--app", "benchmarks.peers.procrastinate.app", "worker", "--concurrency", "20")
_PGQUEUER = ("-m", "benchmarks.peers.pgqueuer")
_CELERY = ("-m", "celery", "-A", "benchmarks.peers.celery", "worker", "-c", "2", "--prefetch-multiplier", "64")
_QUIET_CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")
_RQ = ("-m", "rq.cli", "worker", "--worker-class", "rq.SimpleWorker", "--url", "{url}", "--quiet")
_HUEY = ("-m", "huey.bin.huey_consumer", "benchmarks.peers.huey.huey", "-q", "-n", "-k", "process", "-w", "2")
_SAQ = ("-m", "saq", "benchmarks.peers.saq.settings", "--workers", "2", "--quiet")
_TASKIQ = ("-m", "taskiq", "worker", "benchmarks.peers.taskiq:broker", "-w", "2", "--log-level", "WARNING")


def _peer(name: str, store: str, configuration: str, *commands: tuple[str, ...], needs: tuple[str, ...]) -> System:
    return System(
        name=name,
        store=store,
        module=f"benchmarks.peers.{name}",
        needs=needs,
        commands=commands,
        configuration=configuration,
    )


PEERS: tuple[System, ...] = (
    _peer(
        "pgqueuer",
        "postgres",
        "two processes, batches of 100, asyncpg",
        _PGQUEUER,
        _PGQUEUER,
        needs=("pgqueuer", "asyncpg"),
    ),
    _peer(
        "procrastinate",
        "postgres",
        "two processes of 20 coroutines",
        _PROCRASTINATE,
        _PROCRASTINATE,
        needs=("procrastinate", "psycopg"),
    ),
    _peer("saq", "postgres", "two processes of 20 coroutines", _SAQ, needs=("saq", "psycopg")),
    _peer(
        "huey",
        "sqlite",
        "two processes, fsync on, polling every 10 to 100 ms",
        (*_HUEY, "-d", "0.01", "-m", "0.1"),
        needs=("huey",),
    ),
    _peer(
        "celery",
        "redis",
        "prefork of two, 64 prefetched for each, no results kept",
        (*_CELERY, *_QUIET_CELERY),
        needs=("celery", "redis"),
    ),
    _peer(
        "dramatiq",
        "redis",
        "two processes of eight threads",
        ("-m", "dramatiq", "benchmarks.peers.dramatiq", "-p", "2", "-t", "8"),
        needs=("dramatiq", "redis"),
    ),
    _peer("huey", "redis", "two processes", _HUEY, needs=("huey", "redis")),
    _peer("rq", "redis", "two SimpleWorkers, which do not fork", _RQ, _RQ, needs=("rq", "redis")),
    _peer("saq", "redis", "two processes of 20 coroutines", _SAQ, needs=("saq", "redis")),
    _peer("taskiq", "redis", "streams, two processes of 100 coroutines", _TASKIQ, needs=("taskiq", "taskiq_redis")),
)


def versions(systems: Sequence[System]) -> Iterator[str]:
    """What is installed of those that are measured."""
    packages = dict.fromkeys(name.replace("_", "-") for system in systems for name in system.needs)
    if packages:
        yield ", ".join(f"{name} {version(name)}" for name in packages)
