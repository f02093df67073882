"""Draw the life of one task on one line: where it waited, where it worked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Task
from windlass.core.times import Micros
from windlass.dashboard.svg.elements import Markup, element
from windlass.operations.presentation import format_span

HEIGHT = 20
NARROWEST = 0.4
"""The width in percent of a segment that would be narrower."""


class Segment(Struct, frozen=True, kw_only=True):
    """A part of a task's life: it waited, or an attempt worked."""

    start: Micros
    end: Micros
    attempt: int | None = None
    """The number of the attempt; None if the task waited."""
    state: State = State.WAITING
    """How the attempt ended; leased while it runs."""
    open: bool = False
    """True if it continues."""

    @property
    def length(self) -> Micros:
        """Return how long it took."""
        return max(0, self.end - self.start)

    @property
    def words(self) -> str:
        """Return it in words."""
        what = "waited" if self.attempt is None else f"attempt {self.attempt} worked"
        how = "" if self.attempt is None or self.open else f", then {self.state.value}"
        return f"{what} {format_span(self.length)}{' so far' * self.open}{how}"


def find_segments(task: Task, attempts: Sequence[Attempt], now: Micros) -> list[Segment]:
    """Return the parts of a task's life so far, in order."""
    found: list[Segment] = []
    at = task.submitted
    for number, attempt in enumerate(attempts, 1):
        found.append(Segment(start=at, end=attempt.started))
        found.append(Segment(start=attempt.started, end=attempt.ended, attempt=number, state=attempt.state))
        at = attempt.ended
    if task.state is State.LEASED and task.claimed is not None:
        found.append(Segment(start=at, end=task.claimed))
        number = len(attempts) + 1
        found.append(Segment(start=task.claimed, end=now, attempt=number, state=State.LEASED, open=True))
    elif not task.state.final:
        found.append(Segment(start=at, end=max(now, at), open=True))
    elif task.finished is not None and not attempts:
        found.append(Segment(start=at, end=task.finished))
    return [each for each in found if each.length > 0 or each.attempt is not None]


def draw_timeline(segments: Sequence[Segment], *, skip_first_wait: bool = False) -> Markup:
    """Draw the segments to scale: waiting hatched, work solid in the color of how it ended."""
    if skip_first_wait and len(segments) > 1 and segments[0].attempt is None:
        segments = segments[1:]
    total = max(1, sum(each.length for each in segments))
    widths = [max(NARROWEST, 100 * each.length / total) for each in segments]
    scale = 100 / max(1.0, sum(widths))
    shapes: list[Markup] = []
    x = 0.0
    for each, width in zip(segments, widths, strict=True):
        look = "timeline-wait" if each.attempt is None else f"timeline-work s-{each.state.value}"
        title = element("title", each.words)
        left, wide = f"{x:.3f}%", f"{width * scale:.3f}%"
        shapes.append(element("rect", title, x=left, y=0, width=wide, height=HEIGHT, class_=look))
        x += width * scale
    words = "; ".join(each.words for each in segments)
    stripe = element("path", d="M0 6L6 0", class_="timeline-stripe")
    pattern = element("pattern", stripe, id="timeline-hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return element(
        "svg",
        element("title", f"Timeline: {words}"),
        element("defs", pattern),
        *shapes,
        class_="timeline",
        width="100%",
        height=HEIGHT,
        role="img",
    )
