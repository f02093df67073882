"""`windlass.simulate`: play a load with a policy in simulated time."""

from __future__ import annotations

from windlass.core.times import Duration
from windlass.custom_decider import PREFIX
from windlass.simulation.bound import compute_bound
from windlass.simulation.load import InvalidLoad, LoadOverrides
from windlass.simulation.load_sources import LoadSource, adjust_load, find_load
from windlass.simulation.policies import AppDecider, find_policies, play, play_app_decider
from windlass.simulation.run import SimulationResult


def simulate(
    load: LoadSource,
    *,
    policy: str | AppDecider = "slo",
    wait: Duration | None = None,
    min: int | None = None,
    max: int | None = None,
    start_delay: Duration | None = None,
    rate: float | None = None,
    service: float | None = None,
    cv2: float | None = None,
    distribution: str = "lognormal",
    seconds: int | None = None,
    seed: int = 0,
) -> SimulationResult:
    """Play a load in simulated time, with the controller that sizes real pools.

    >>> simulate("step", wait="10s", start_delay="2s").late < 0.01
    True

    `load` is the name of a scenario, the path of a CSV file, or a sequence of (second, run seconds). Options that are
    not given keep the values of the load. `policy` is the name of a policy, or a decider function. The same arguments
    give the same result.
    """
    overrides = LoadOverrides(rate=rate, service=service, cv2=cv2, distribution=distribution, seconds=seconds)
    adjusted = adjust_load(
        find_load(load, seed=seed, overrides=overrides),
        wait=wait,
        min=min,
        max=max,
        start_delay=start_delay,
    )
    if not isinstance(policy, str):
        name = f"{PREFIX}{policy.__name__}"
        return play_app_decider(name, policy, adjusted, compute_bound(adjusted), keep_timeline=True)
    [name, *more] = find_policies([policy])
    if more:
        raise InvalidLoad(f"policy={policy!r} names several policies. Use one of {', '.join([name, *more])}.")
    return play(name, adjusted, compute_bound(adjusted), keep_timeline=True)
