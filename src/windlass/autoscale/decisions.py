"""What one tick came to: the target, the steps that led to it, and one sentence for the ledger.

Every limit has a stable word, so that metrics and lists can count by it: `ceiling`, `window`, `cost`, `floor`, `idle`,
`hold`, `budget`, `cooldown`, `step`, `flapping`, `starting`, `adopting`, `restored`, `stale`, `override`, `paused`, and
`veto:` with `breaker`, `errors`, `futile`, `limit`, `stalled` or `crashes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from windlass.autoscale.load_overrides import Step, Recommendation
from windlass.autoscale.state import ControllerState


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The target of one tick, and all that a ledger tells about it."""

    target: int
    reasons: tuple[str, ...]
    """The chain, in the order in which it was decided; the last one settled it."""
    state: ControllerState
    alerts: tuple[str, ...] = ()
    recommendation: Recommendation | None = None
    wanted: int = 0
    """The size that the deciders asked for, before any veto or limit."""
    needs: float = 0.0
    """The same before rounding."""
    limited_by: str = ""
    """The word of the last step that moved the size away from what was wanted; empty if it is what was wanted."""
    limit_reason: str = ""
    """What that step says."""
    predicted_wait: float = 0.0
    """Seconds that a task which comes now will wait, with the size that the pool shall have."""

    def summarize(self, before: int) -> str:
        """The decision in one line, for a pool that had `before` workers."""
        limit = f" (wanted {self.wanted}): {self.limit_reason}" if self.limited_by else ""
        if self.target == before and limit:
            return f"= {self.target}{limit}"
        sign = "=" if self.target == before else "▲" if self.target > before else "▼"
        size = f"{before}→{self.target}" if self.target != before else f"{before}"
        return f"{sign} {size}  {self.reasons[0]}: needs {self.needs:.1f}{limit}"


def build_decision(
    steps: Sequence[Step], state: ControllerState, wish: Recommendation | None = None, alerts: Sequence[str] = (), predicted: float = 0.0
) -> Decision:
    """The decision that these steps make; the first is what was wanted, the last is the target."""
    first, last = steps[0], steps[-1]
    moved = [step for before, step in pairwise(steps) if step.size != before.size] if last.size != first.size else []
    return Decision(
        target=last.size,
        reasons=tuple(step.reason for step in steps if step.reason),
        state=state,
        alerts=tuple(alerts),
        recommendation=wish,
        predicted_wait=predicted,
        wanted=first.size,
        needs=first.needs,
        limited_by=moved[-1].limit if moved else "",
        limit_reason=moved[-1].reason if moved else "",
    )
