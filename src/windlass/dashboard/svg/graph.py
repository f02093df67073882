"""Draw a workflow as a layered graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from unicodedata import east_asian_width

from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.dashboard.svg.bars import divide
from windlass.dashboard.svg.elements import Markup, element, number
from windlass.dashboard.svg.layered_layout import lay_out
from windlass.dashboard.svg.step_groups import CollapsedGraph, Group
from windlass.operations.presentation import GLYPHS, format_span, shorten_handler
from windlass.operations.workflow_graph import Workflow

BOX_WIDTH, BOX_HEIGHT = 192.0, 56.0
MARGIN = 8.0
LABEL = 18
"""How many characters of a name fit into a box."""
NOTE = 25
"""How many characters of the line below it fit."""


_NOTED = (State.FAILED, State.EXPIRED, State.RETRYING, State.LEASED)


def draw_graph(
    workflow: Workflow, graph: CollapsedGraph, now: Micros, *, link: Callable[[Group], str | None], title: str
) -> Markup:
    """Draw the groups of a workflow as boxes, and its critical path in brass. `link` returns the page of a group."""
    layout = lay_out([(BOX_WIDTH, BOX_HEIGHT)] * len(graph.groups), graph.edges)
    # The edges of the critical path are drawn last, on top of the others.
    order = sorted(range(len(graph.edges)), key=lambda index: graph.edges[index] in graph.critical)
    edges = [_edge(layout.edges[index], graph.edges[index] in graph.critical) for index in order]
    slack = workflow.slack(now)
    boxes = [
        _box(workflow, group, box.x + MARGIN, box.y + MARGIN, now, slack, link(group))
        for group, box in zip(graph.groups, layout.boxes, strict=True)
    ]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    return element(
        "svg",
        element("title", title),
        element("desc", f"{workflow.tasks:,} steps in {len(graph.groups):,} boxes. The table lists them."),
        element("g", *edges, class_="graph-edges"),
        element("g", *boxes, class_="graph-boxes"),
        class_="graph",
        width=width,
        height=height,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="group",
    )


def _edge(points: Sequence[tuple[float, float]], critical: bool) -> Markup:
    path = f"M{number(points[0][0] + MARGIN)} {number(points[0][1] + MARGIN)}"
    for index in range(1, len(points)):
        (x0, y0), (x1, y1) = points[index - 1], points[index]
        x0, y0, x1, y1 = x0 + MARGIN, y0 + MARGIN, x1 + MARGIN, y1 + MARGIN
        if abs(x0 - x1) < 0.5:
            path += f"V{number(y1)}"
        else:
            middle = number((y0 + y1) / 2)
            path += f"C{number(x0)} {middle} {number(x1)} {middle} {number(x1)} {number(y1)}"
    return element("path", class_="graph-edge critical" if critical else "graph-edge", d=path)


def _box(
    workflow: Workflow, group: Group, x: float, y: float, now: Micros, slack: Sequence[int], href: str | None
) -> Markup:
    state = group.state
    many = f" ×{group.tasks:,}" if group.tasks > 1 and group.handler is not None else ""
    name = cut_text(shorten_name(group.label, LABEL - len(many)), LABEL - len(many)) + many
    parts = [
        element("title", _describe(workflow, group, now, slack)),
        element("rect", class_="graph-box", x=x, y=y, width=BOX_WIDTH, height=BOX_HEIGHT, rx=4),
        element("rect", class_=f"graph-state state-{state.value}", x=x, y=y, width=4, height=BOX_HEIGHT, rx=2),
        element("text", GLYPHS[state], class_=f"graph-glyph state-{state.value}", x=x + 14, y=y + 22),
        # An inner drawing cuts off what a wide font makes too long.
        element(
            "svg",
            element("text", name, class_="graph-name", x=32, y=22),
            element("text", _second_line(workflow, group, now, slack), class_="graph-note", x=14, y=39),
            x=x,
            y=y,
            width=BOX_WIDTH - 4,
            height=BOX_HEIGHT,
        ),
    ]
    if group.tasks > 1:
        parts.append(_progress(group.states, x + 14, y + BOX_HEIGHT - 9, BOX_WIDTH - 28))
    look = "graph-node critical" if group.critical else "graph-node"
    if href is None:
        return element("g", *parts, class_=look)
    return element("a", *parts, class_=look, href=href)


def _second_line(workflow: Workflow, group: Group, now: Micros, slack: Sequence[int]) -> str:
    if group.tasks > 1:
        done = f"{group.states.get(State.COMPLETED, 0):,}/{group.tasks:,} done"
        others = [f"{GLYPHS[state]} {group.states[state]:,}" for state in _NOTED if group.states.get(state)]
        return cut_text(" · ".join([done, *others]), NOTE)
    view = workflow.view(group.places[0])
    words = group.state.value
    if view.began is None:
        return words
    # A box has room for one time: the slack, or on the critical path how long the step worked. The tooltip has both.
    spare = slack[group.places[0]]
    if group.state.final and not group.critical and spare >= 1_000:
        return f"{words} · slack {format_span(spare)}"
    return f"{words} · {format_span(view.worked(now))}"


def _describe(workflow: Workflow, group: Group, now: Micros, slack: Sequence[int]) -> str:
    states = ", ".join(f"{count:,} {state.value}" for state, count in group.states.items())
    path = "; on the critical path" if group.critical else ""
    if group.tasks > 1:
        return f"{group.label}, {group.tasks:,} steps: {states}{path}"
    view = workflow.view(group.places[0])
    times = ""
    if view.began is not None:
        times = f", waited {format_span(view.waited(now))}, worked {format_span(view.worked(now))}"
    spare = "" if group.critical else f", slack {format_span(slack[group.places[0]])}"
    return f"{group.label}: {group.state.value}{times}{spare}{path}"


def _progress(states: Mapping[State, int], x: float, y: float, width: float) -> Markup:
    parts: list[Markup] = []
    for state, share in divide(states):
        part = width * share / 100
        parts.append(element("rect", class_=f"state-{state.value}", x=x, y=y, width=part, height=3))
        x += part
    return element("g", *parts, class_="graph-progress")


def shorten_name(name: str, width: int) -> str:
    """Return a dotted name without its first parts if it is too wide, because the last one says most.

    >>> shorten_name("shop.orders.render_invoice", 18), shorten_name("shop.pack", 18)
    ('render_invoice', 'shop.pack')
    """
    return shorten_handler(name) if len(name) > width else name


def cut_text(text: str, width: int) -> str:
    """Cut text to a width in characters; wide ones count twice.

    >>> cut_text("render_invoice", 8), cut_text("pack", 8), cut_text("請求書", 5)
    ('render_…', 'pack', '請求…')
    """
    total = 0
    for index, character in enumerate(text):
        total += 2 if east_asian_width(character) in "WF" else 1
        if total > width:
            return _fit(text[:index], width - 1) + "…"
    return text


def _fit(text: str, width: int) -> str:
    while sum(2 if east_asian_width(character) in "WF" else 1 for character in text) > width:
        text = text[:-1]
    return text
