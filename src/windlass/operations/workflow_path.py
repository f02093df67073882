"""What the critical path of a workflow spends its time on, and what a faster handler would gain."""

from __future__ import annotations

from array import array

from msgspec import Struct

from windlass.core.times import Micros
from windlass.operations.presentation import format_span, shorten_handler
from windlass.operations.workflow_graph import StepView, Workflow

MOST_STEPS = 200
"""How many steps of the critical path are listed."""


MOSTLY = 0.7
"""From this share of the path on, waiting is what matters."""


class PathPart(Struct, frozen=True, kw_only=True):
    """What one handler contributes to the critical path."""

    handler: str
    steps: int
    waited: Micros
    worked: Micros
    share: float
    """The part of the path's time that its steps worked."""


class Lever(Struct, frozen=True, kw_only=True):
    """What the workflow would gain if its largest part of the critical path were twice as fast."""

    part: PathPart
    saved: Micros
    """How much earlier the workflow would end, if all steps waited as long as they did."""

    @property
    def sentence(self) -> str:
        """Return the gain in one sentence."""
        share = f"{shorten_handler(self.part.handler)} is {self.part.share:.0%} of the path"
        if self.saved < 1_000:
            return f"{share}; twice as fast, another path would decide, and the workflow would end no earlier."
        return f"{share}; twice as fast ends the workflow {format_span(self.saved)} earlier."


class CriticalPath(Struct, frozen=True, kw_only=True):
    """The critical path in numbers."""

    length: Micros
    """From the first submit until the last end, or until now."""
    waited: Micros
    worked: Micros
    parts: list[PathPart]
    """By handler, the largest first."""
    steps: list[StepView]
    """Its first steps, at most `MOST_STEPS`."""
    more: int
    """How many more steps it has."""
    lever: Lever | None
    """None if nothing on the path has worked."""

    @property
    def sentence(self) -> str:
        """Return what would shorten the path most, in one sentence; empty if nothing is known yet."""
        if self.waited > MOSTLY * self.length:
            return (
                f"Waiting for a worker is {self.waited / self.length:.0%} of the path; faster steps would gain little."
            )
        return "" if self.lever is None else self.lever.sentence


def describe_path(workflow: Workflow, now: Micros) -> CriticalPath:
    """Return the critical path and what would shorten it."""
    length = max(1, (workflow.ended or now) - workflow.submitted)
    times: dict[str, list[int]] = {}
    for place in workflow.critical:
        view = workflow.view(place)
        total = times.setdefault(view.step.handler, [0, 0, 0])
        for index, value in enumerate((1, view.waited(now), view.worked(now))):
            total[index] += value
    parts = [
        PathPart(handler=handler, steps=steps, waited=waited, worked=worked, share=worked / length)
        for handler, (steps, waited, worked) in times.items()
    ]
    parts.sort(key=lambda part: (-part.worked, part.handler))
    lever = None
    if parts and parts[0].worked:
        lever = Lever(part=parts[0], saved=estimate_saving(workflow, parts[0].handler, now))
    return CriticalPath(
        length=length,
        waited=sum(part.waited for part in parts),
        worked=sum(part.worked for part in parts),
        parts=parts,
        steps=[workflow.view(place, now) for place in workflow.critical[:MOST_STEPS]],
        more=max(0, len(workflow.critical) - MOST_STEPS),
        lever=lever,
    )


def estimate_saving(workflow: Workflow, handler: str, now: Micros) -> Micros:
    """Return how much earlier the workflow would end if every step of a handler worked half as long.

    Each step waits as long as it did after its last prerequisite ended. Unfinished steps end now.
    """
    ends = array("q", bytes(8 * workflow.tasks))
    last = 0
    for place, step in enumerate(workflow.steps):
        end = now if step.finished is None else step.finished
        took = max(0, end - workflow.ready[place])
        if step.handler == handler:
            took -= workflow.view(place).worked(now) // 2
        ready = step.submitted
        for above in workflow.prerequisites[place]:
            if above < place:
                ready = max(ready, ends[above])
        ends[place] = ready + max(0, took)
        last = max(last, ends[place])
    was = max((now if step.finished is None else step.finished for step in workflow.steps), default=last)
    return max(0, was - last)
