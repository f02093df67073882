"""Small charts that stand in a table cell or a line of text: bars of shares, and sparklines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.core.lifecycle import State
from windlass.dashboard.svg.elements import Markup, element, number
from windlass.dashboard.svg.scales import format_number

WIDTH, HEIGHT = 100.0, 8.0
LEAST = 1.5
"""The smallest part of a bar that is still visible, in percent."""


def draw_states(states: Mapping[State, int]) -> Markup:
    """Draw how many tasks are in each state as one bar. Each state that has any is visible."""
    words = ", ".join(f"{states[state]:,} {state.value}" for state in _ORDER if states.get(state))
    parts: list[Markup] = []
    x = 0.0
    for state, width in divide(states):
        title = element("title", f"{states[state]:,} {state.value}")
        shape = element("rect", title, class_=f"state-{state.value}", x=x, y=0, width=width, height=HEIGHT)
        parts.append(shape)
        x += width
    return _bar("bar bar-states", words or "no tasks", parts)


def draw_share(share: float, *, label: str, look: str = "bar-fill", due: float | None = None) -> Markup:
    """Draw a share from 0 to 1 as a bar; `due` marks another share on it."""
    parts = [
        element("rect", element("title", label), class_=look, x=0, y=0, width=_clamp(share) * WIDTH, height=HEIGHT)
    ]
    if due is not None:
        x = number(_clamp(due) * WIDTH)
        parts.append(element("path", class_="bar-due", d=f"M{x} -2V{HEIGHT + 2:g}"))
    return _bar("bar", label, parts)


def draw_sparkline(values: Sequence[float], *, label: str, look: str = "spark") -> Markup:
    """Draw a trend in the size of a word. The label says what it shows; the latest and largest value are added."""
    if not values:
        return Markup("")
    top = max(values) or 1.0
    width = WIDTH / max(1, len(values) - 1)
    points = [(index * width, 20 - 18 * max(0.0, value) / top) for index, value in enumerate(values)]
    line = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + ("h0.1" if len(points) == 1 else "")
    words = f"{label}: now {format_number(values[-1])}, at most {format_number(max(values))}"
    return element(
        "svg",
        element("title", words),
        element("path", class_="spark-area", d=f"{line}V21H0Z"),
        element("path", class_="spark-line", d=line),
        class_=look,
        viewBox=f"0 0 {WIDTH:g} 22",
        preserveAspectRatio="none",
        role="img",
    )


_ORDER = (
    State.COMPLETED, State.FAILED, State.EXPIRED, State.CANCELLED, State.LEASED, State.RETRYING, State.RUNNABLE,
    State.SCHEDULED, State.WAITING,
)  # fmt: skip
"""What is done comes first, so that the bar fills up from the left."""


def divide(states: Mapping[State, int]) -> list[tuple[State, float]]:
    """Return the width of each state in percent, what is done first. Small parts are widened to stay visible."""
    total = sum(states.values())
    widths = {state: max(LEAST, WIDTH * states[state] / total) for state in _ORDER if states.get(state)}
    excess = sum(widths.values()) - WIDTH
    if widths and excess > 0:
        largest = max(widths, key=lambda state: widths[state])
        widths[largest] -= excess
    return list(widths.items())


def _bar(look: str, words: str, parts: Sequence[Markup]) -> Markup:
    return element(
        "svg",
        element("title", words),
        *parts,
        class_=look,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
    )


def _clamp(share: float) -> float:
    return min(1.0, max(0.0, share))
