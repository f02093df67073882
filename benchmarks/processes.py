"""The same work in several processes that begin at the same moment."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
Ready = Callable[[], object]
"""What a job calls when it has opened what it needs: it returns when all the others are ready too."""

PATIENCE = 120.0


def together(processes: int, job: Callable[[Ready], T]) -> list[T]:
    """Fork so many processes, let each do the job, and answer with what came of each.

    The caller must hold no open store and no connection: a child would share it.
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
        return [_answer(end) for end in ends]
    finally:
        for child in children:
            child.join(PATIENCE)


def alone(job: Callable[[Ready], T]) -> T:
    """The job in a process of its own, so that it leaves nothing behind in this one."""
    [answer] = together(1, job)
    return answer


def _run(job: Callable[[Ready], T], barrier: Any, sender: Connection) -> None:
    try:
        sender.send((True, job(lambda: barrier.wait(PATIENCE))))
    except BaseException:  # noqa: BLE001  # a process boundary: the parent raises it
        barrier.abort()
        sender.send((False, traceback.format_exc()))


def _answer(end: Any) -> Any:
    went_well, answer = end.recv()
    if not went_well:
        raise RuntimeError(f"a process of the benchmark failed:\n{answer}")
    return answer
