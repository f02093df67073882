"""What people order: a pin or a range for some time, and a pause. It outranks every decider and veto."""

from __future__ import annotations

from msgspec import Struct


class Override(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A size, or a range of sizes, that somebody has set until some moment."""

    least: int
    most: int
    until: float
    author: str = ""
    why: str = ""

    @classmethod
    def pin(cls, size: int, until: float, author: str = "", why: str = "") -> Override:
        """Exactly this size."""
        return cls(least=size, most=size, until=until, author=author, why=why)

    def is_active(self, now: float) -> bool:
        """Whether it still counts."""
        return now < self.until

    def apply(self, size: int) -> int:
        """The size that it makes of another."""
        return max(self.least, min(self.most, size))

    def describe(self) -> str:
        """In one sentence."""
        size = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"set to {size} by {self.author or 'somebody'}" + (f": {self.why}" if self.why else "")
