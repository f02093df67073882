"""Windlass in FastAPI: everything of `windlass.integrations.starlette`, and dependencies.

>>> SessionDep = Annotated[AsyncSession, Depends(get_session)]
>>> EnqueueDep = Annotated[Enqueue, Depends(enqueue_with(SessionDep))]
>>> @api.post("/orders")
... async def order(session: SessionDep, enqueue: EnqueueDep): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar, get_origin

from fastapi import Depends

from windlass.client.handle import Handle
from windlass.client.handlers import Using
from windlass.integrations.starlette import (
    Background,
    WindlassMiddleware,
    background,
    get_app,
    http_api,
    lifespan,
    running,
)

__all__ = [
    "Background",
    "BackgroundDep",
    "Enqueue",
    "WindlassMiddleware",
    "background",
    "enqueue_with",
    "get_app",
    "http_api",
    "lifespan",
    "running",
]

P = ParamSpec("P")
R = TypeVar("R")

BackgroundDep = Annotated[Background, Depends(background)]
"""The type of a parameter that gets the `Background` of the request."""


class Enqueue:
    """Enqueues calls in the transaction of one connection or session."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    async def __call__(self, handler: Using[P, R], *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call. It commits or rolls back with the transaction."""
        return await handler.using(conn=self.conn).aenqueue(*args, **kwargs)


def enqueue_with(dependency: Any) -> Callable[..., Enqueue]:
    """Return a dependency that gives an `Enqueue` for the connection or session that another dependency gives.

    Pass the type that the endpoint uses for its own parameter, such as `Annotated[AsyncSession, Depends(get_session)]`:
    FastAPI gives both the same session only if their dependencies are equal, with the same `scope`.
    """

    def enqueue(conn: Any) -> Enqueue:
        return Enqueue(conn)

    is_type = get_origin(dependency) is Annotated
    enqueue.__annotations__["conn"] = dependency if is_type else Annotated[Any, Depends(dependency)]
    return enqueue
