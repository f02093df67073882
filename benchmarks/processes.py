"""Run the same job in several processes that start at the same time."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
Ready = Callable[[], object]
"""A job calls this when it is ready; it returns when all jobs are ready."""

PATIENCE = 120.0


def run_together(processes: int, job: Callable[[Ready], T]) -> list[T]:
    """Run a job in this many forked processes and return their results.

    The caller must not have an open store or connection, because the children would share it.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    ends: list[Any] = []
    children: list[Any] = []
    for _ in range(processes):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_run, args=(job, barrier, sender), daemon=True)
        child.start()
        sender.close()
        ends.append(receiver)
        children.append(child)
    try:
        return [_receive_result(end) for end in ends]
    finally:
        for child in children:
            child.join(PATIENCE)


def run_alone(job: Callable[[Ready], T]) -> T:
    """Run a job in its own process, so that it leaves nothing behind in this one."""
    [answer] = run_together(1, job)
    return answer


def _run(job: Callable[[Ready], T], barrier: Any, sender: Connection) -> None:
    try:
        sender.send((True, job(lambda: barrier.wait(PATIENCE))))
    except BaseException:  # noqa: BLE001  # a process boundary: the parent raises it
        barrier.abort()
        sender.send((False, traceback.format_exc()))


def _receive_result(end: Any) -> Any:
    succeeded, answer = end.recv()
    if not succeeded:
        raise RuntimeError(f"A process of the benchmark failed:\n{answer}")
    return answer
