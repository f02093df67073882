"""Calls synchronous code from asyncio: every `a…` method goes through here.

The work runs in threads of this process with the caller's context, so `current()` works in them. The threads start on
first use; a forked child starts without any.
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
    """Call a function in a thread and await its result."""
    import asyncio

    context = copy_context()
    call = partial(context.run, partial(function, *args, **kwargs))
    return await asyncio.wrap_future(_threads("call").submit(call))


def start_writer(function: Callable[[], R]) -> Future[R]:
    """Run a commit in a thread. Writers have threads of their own, because calls wait for them."""
    return _threads("write").submit(function)


@cache
def _threads(purpose: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=f"windlass-{purpose}")


os.register_at_fork(after_in_child=_threads.cache_clear)
