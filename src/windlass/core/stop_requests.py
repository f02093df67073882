"""What people ask of nodes and workers: to take nothing new, finish and exit, within some time or whenever they can.

The requests that are open are one document in the store, which every node reads once a second. A request names the
session of the node, so it cannot reach a later node with the same name. The number of a worker is never used again by
its node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerList

KIND, NAME = "stop", "requests"
"""The kind and the name of the control that holds the document."""
UNLISTED_KEPT = micros(timedelta(hours=1))


class StopRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to drain or stop one worker, or a whole node."""

    session: str
    """The session of the node."""
    worker: int | None = None
    """The number of the worker; None for the whole node."""
    grace: float | None = None
    """Seconds after which running tasks are stopped and released; None to let them finish."""
    by: str
    at: Micros
    why: str = ""

    @property
    def verb(self) -> Literal["drain", "stop"]:
        """Return what was asked for."""
        return "drain" if self.grace is None else "stop"

    def describe(self) -> str:
        """Return what was asked, by whom and why, such as "asked to drain by ada: it leaks"."""
        return f"asked to {self.verb} by {self.by}" + (f": {self.why}" if self.why else "")

    def includes(self, other: StopRequest) -> bool:
        """Return True if this request asks for as much as another one for the same worker or node."""
        if (self.session, self.worker) != (other.session, other.worker):
            return False
        return other.grace is None or (self.grace is not None and self.grace <= other.grace)


class _Document(Struct, frozen=True, kw_only=True):
    requests: tuple[StopRequest, ...] = ()


def encode_requests(requests: Sequence[StopRequest]) -> str:
    """Return the JSON text that a store keeps."""
    return msgspec.json.encode(_Document(requests=tuple(requests))).decode()


def decode_requests(text: str) -> tuple[StopRequest, ...]:
    """Read the stored requests. Text from an incompatible version counts as none."""
    try:
        return msgspec.json.decode(text, type=_Document).requests
    except msgspec.DecodeError:
        return ()


def find_request(requests: Sequence[StopRequest], session: str, worker: int | None = None) -> StopRequest | None:
    """Return the request for a worker, or for the whole node; None if there is none."""
    return next((one for one in requests if (one.session, one.worker) == (session, worker)), None)


def add_request(
    requests: Sequence[StopRequest], new: StopRequest, alive: Mapping[str, WorkerList]
) -> tuple[StopRequest, ...] | None:
    """Return the requests with a new one; None if an open one asks for as much.

    `alive` has the workers of every live node by session. Requests for anything else are dropped, because it has ended.
    Of a worker that its node does not list, because it has too many, a request is dropped after `UNLISTED_KEPT`: its
    node has known it for long.
    """
    if any(one.includes(new) for one in requests):
        return None
    replaced = (new.session, new.worker)
    others = [one for one in requests if (one.session, one.worker) != replaced and _is_open(one, alive, new.at)]
    return (*others, new)


def _is_open(request: StopRequest, alive: Mapping[str, WorkerList], now: Micros) -> bool:
    workers = alive.get(request.session)
    if workers is None or request.worker is None:
        return workers is not None
    if any(worker.number == request.worker for worker in workers.workers):
        return True
    return bool(workers.more) and now < request.at + UNLISTED_KEPT
