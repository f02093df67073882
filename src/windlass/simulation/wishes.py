"""What a user may want of a drawn load: how many tasks, how long they run, for how long."""

from __future__ import annotations

from msgspec import Struct

from windlass.simulation.chance import DISTRIBUTIONS
from windlass.simulation.load import InvalidLoad

MOST_TASKS = 500_000
"""More than that is no question for a simulation that shall take seconds."""


class LoadOverrides(Struct, frozen=True, kw_only=True):
    """What is left out stays as the scenario or the trace has it."""

    rate: float | None = None
    """The mean number of tasks a second."""
    service: float | None = None
    """The mean run time in seconds."""
    cv2: float | None = None
    """The squared coefficient of variation of the run time."""
    distribution: str = "lognormal"
    seconds: int | None = None
    """The length of the run."""

    def check(self) -> None:
        """Refuse what cannot be drawn."""
        for name, least, most in (("rate", 1e-6, 1e5), ("service", 1e-6, 1e6), ("seconds", 1, 1e7)):
            value: float | None = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InvalidLoad(f"{name}={value!r} cannot be played; give {least:g} to {most:g}")
        if self.cv2 is not None and not 0 <= self.cv2 <= 1000:
            raise InvalidLoad(f"cv2={self.cv2!r} is no squared variation; give 0 to 1000")
        if self.distribution not in DISTRIBUTIONS:
            known = ", ".join(DISTRIBUTIONS)
            raise InvalidLoad(f"distribution={self.distribution!r} is not known; give one of {known}")
        if self.distribution == "exponential" and self.cv2 not in (None, 1):
            raise InvalidLoad(f"cv2={self.cv2!r} does not go with exponential, which has 1; take lognormal or bimodal")

    def check_none(self, load: str) -> None:
        """Refuse wishes about a load that is played as it was."""
        for name in self.__struct_fields__:
            if getattr(self, name) != getattr(NO_OVERRIDES, name):
                raise InvalidLoad(f"{name}={getattr(self, name)!r} does not go with {load}, which is played as it was")

    def check_size(self, tasks: float) -> None:
        """Refuse more tasks than can be played in seconds."""
        if tasks > MOST_TASKS:
            raise InvalidLoad(f"rate and seconds make {tasks:,.0f} tasks; give fewer, up to {MOST_TASKS:,}")


NO_OVERRIDES = LoadOverrides()
