"""From asyncio to the synchronous inside: the one bridge that every `a…` twin crosses.

The work itself is done by threads of this process, with the caller's context, so that `current()` is there too. They
come when they are first needed; a process that never awaits anything has none, and a forked child starts without.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 8


async def in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call it in a thread, and await its answer."""
    import asyncio

    context = copy_context()
    call = partial(context.run, partial(function, *args, **kwargs))
    return await asyncio.wrap_future(_threads("call").submit(call))


def begin(function: Callable[[], R]) -> Future[R]:
    """Let a thread write; the answer comes through the future. Calls wait for writers, so these have their own."""
    return _threads("write").submit(function)


@cache
def _threads(purpose: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=f"windlass-{purpose}")


os.register_at_fork(after_in_child=_threads.cache_clear)
