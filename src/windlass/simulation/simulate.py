"""`windlass.simulate`: one question about a pool, answered in simulated time."""

from __future__ import annotations

from windlass.core.times import Duration
from windlass.custom_decider import PREFIX
from windlass.simulation.bound import bound
from windlass.simulation.load import InvalidLoad
from windlass.simulation.loads import Named, load_of, tuned
from windlass.simulation.ours import OwnDecider
from windlass.simulation.policies import named, play_best, play_own
from windlass.simulation.results import SimulationResult
from windlass.simulation.wishes import Wishes


def simulate(
    load: Named,
    *,
    policy: str | OwnDecider = "slo",
    wait: Duration | None = None,
    floor: int | None = None,
    ceiling: int | None = None,
    start_delay: Duration | None = None,
    rate: float | None = None,
    service: float | None = None,
    cv2: float | None = None,
    distribution: str = "lognormal",
    seconds: int | None = None,
    seed: int = 0,
) -> SimulationResult:
    """What a pool would do under a load: the very controller that sizes real pools, in simulated time.

    >>> simulate("step", wait="10s", start_delay="2s").late < 0.01
    True

    `load` is the name of a scenario, the path of a CSV file, or a sequence of (second, run seconds). What is left out
    stays as the load has it. `policy` is the name of one, or a decider of your own. The same question has the same
    answer twice.
    """
    wishes = Wishes(rate=rate, service=service, cv2=cv2, distribution=distribution, seconds=seconds)
    wanted = tuned(
        load_of(load, seed=seed, wishes=wishes), wait=wait, floor=floor, ceiling=ceiling, start_delay=start_delay
    )
    if not isinstance(policy, str):
        return play_own(f"{PREFIX}{policy.__name__}", policy, wanted, bound(wanted), kept=True)
    [name, *more] = named([policy])
    if more:
        raise InvalidLoad(f"policy={policy!r} is several; give one of {', '.join([name, *more])}")
    return play_best(name, wanted, bound(wanted), kept=True)
