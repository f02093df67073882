"""What a simulated run came to: plain values that are printed, drawn, stored as JSON and compared."""

from __future__ import annotations

from msgspec import Struct


class Resize(Struct, frozen=True, kw_only=True, gc=False):
    """One line of the ledger: a decision that changed the size."""

    second: int
    before: int
    after: int
    why: str = ""
    """In the policy's own words; the rules of the field say nothing."""


class Timeline(Struct, frozen=True, kw_only=True):
    """The run second by second, one number for each in every list."""

    arrivals: list[int] = []
    ready: list[int] = []
    starting: list[int] = []
    needed: list[float] = []
    """The workers of the clairvoyant bound."""
    waits: list[float] = []
    """The longest wait of whatever started in that second or still waits at its end."""


class SimulationResult(Struct, frozen=True, kw_only=True):
    """One load played with one policy. Times are seconds."""

    load: str
    policy: str
    setting: str = ""
    """Which of a rival's settings this is; the best one is reported."""
    goal: float
    """How long a task may wait."""
    tasks: int
    late: float
    """The share of tasks that waited longer than the goal."""
    wait_p50: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    worker_seconds: float
    """What was paid: from the order of a worker to its end."""
    cost: float
    """The same over that of the clairvoyant bound."""
    resizes_per_hour: float
    recovery: float | None
    """The longest time from a sudden rise of the load until tasks start in time again; None if it never rose so."""
    longest_late: int
    """The longest run of seconds in which some task was late."""
    score: float
    """Cost × lateness × restlessness: 1.0 is the fluid clairvoyant limit."""
    ledger: list[Resize] = []
    timeline: Timeline = Timeline()
