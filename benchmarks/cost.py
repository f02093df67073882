"""What a measured phase costs: the difference between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from benchmarks.usage import Usage


class Cost(Struct, frozen=True, kw_only=True):
    """What one phase cost."""

    tasks: int
    seconds: float
    used: Usage
    """Seconds of CPU time in the phase."""
    windows: Sequence[Cost] = ()
    """A drain in parts, in order."""
    waits: Mapping[str, float] = {}
    """The share of each wait of the server's active processes, if they were sampled."""
    p50: float | None = None
    p99: float | None = None
    """Milliseconds from the enqueue call to the start of the handler."""

    @property
    def microseconds(self) -> Usage:
        """CPU time per task."""
        return self.used.divide(self.tasks)

    @property
    def cores(self) -> float:
        """The number of cores that were busy on average."""
        return self.used.total / self.seconds

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.tasks / self.seconds


class Mark(Struct, frozen=True):
    """One end of a phase."""

    tasks: int
    at: int
    """`time.monotonic_ns`."""
    used: Usage


def subtract(after: Mark, before: Mark) -> Cost:
    """Return the cost between two marks."""
    return Cost(tasks=after.tasks - before.tasks, seconds=(after.at - before.at) / 1e9, used=after.used - before.used)


def combine(parts: Sequence[tuple[Mark, Mark]]) -> Cost:
    """Return the cost of processes that worked at the same time, from the first mark to the last.

    Each was the client of its own marks, and all of them read the same server.
    """
    befores, afters = zip(*parts, strict=True)
    costs = [subtract(after, before) for before, after in parts]
    servers = [mark.used.server for mark in (*befores, *afters) if mark.used.server is not None]
    return Cost(
        tasks=sum(cost.tasks for cost in costs),
        seconds=(max(after.at for after in afters) - min(before.at for before in befores)) / 1e9,
        used=Usage(
            server=max(servers) - min(servers) if servers else None,
            client=sum(cost.used.client or 0.0 for cost in costs),
        ),
    )
