"""One policy over one load, and the score: cost × lateness × restlessness, 1.0 being the fluid clairvoyant limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp, log

from msgspec import Struct

from windlass.autoscale.observations import Observation
from windlass.simulation.load import Load
from windlass.simulation.world import World

Policy = Callable[[int, Observation], int]
"""The second, what is seen at its end → the size that the pool shall have."""

ALLOWED_LATE = 0.01
ALLOWED_RESIZES = 30.0


class Result(Struct, frozen=True, kw_only=True):
    """What one run came to."""

    load: str
    policy: str
    score: float
    cost: float
    """Worker-seconds over those of the clairvoyant bound."""
    late: float
    """The share of tasks that waited longer than the goal."""
    resizes: float
    """A number per hour."""
    wait_p99: float
    episode: int
    """The longest run of seconds in which some task started late."""
    sizes: list[int] = []
    needs: list[float] = []


def run(
    load: Load, limit: float, name: str, start: Callable[[Load], tuple[int, Policy]], chart: bool = False
) -> Result:
    """Play one load with one policy. `limit` is the load's clairvoyant bound."""
    size, policy = start(load)
    world = World(load, size)
    sizes: list[int] = []
    needs: list[float] = []
    episode = longest = 0
    for second in range(load.length):
        seen = world.advance()
        world.resize(policy(world.now, seen))
        episode = episode + 1 if seen.late or seen.oldest > load.wait else 0
        longest = max(longest, episode)
        if chart and second % 10 == 0:
            sizes.append(seen.ready)
            needs.append(seen.arrivals * load.mean)
    return judge(load, limit, name, world, longest, sizes, needs)


def judge(
    load: Load, limit: float, name: str, world: World, episode: int, sizes: list[int], needs: list[float]
) -> Result:
    """The numbers of a world that has run to its end. What still waits has waited at least that long."""
    waits = sorted([*world.waits, *(world.now - at for at, _, _ in world.queue)])
    late = sum(1 for wait in reversed(waits) if wait > load.wait) / max(1, len(waits))
    resizes = world.resizes * 3600 / load.length
    cost = world.cost / limit
    return Result(
        load=load.name, policy=name, cost=cost, late=late, resizes=resizes, episode=episode, sizes=sizes, needs=needs,
        score=cost * max(1.0, late / ALLOWED_LATE) * max(1.0, resizes / ALLOWED_RESIZES),
        wait_p99=waits[int(len(waits) * 0.99)] if waits else 0.0,
    )  # fmt: skip


def combined(scores: Iterable[float]) -> float:
    """The geometric mean, so that no scenario counts more than another."""
    logs = [log(score) for score in scores]
    return exp(sum(logs) / len(logs)) if logs else 0.0
