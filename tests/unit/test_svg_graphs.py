"""Graphs of workflows: layers without overlap, groups that count every step once, and escaped names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations, pairwise
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.workflows import SECOND, START, a_workflow
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.dashboard.svg import step_groups
from windlass.dashboard.svg.gantt import draw_gantt
from windlass.dashboard.svg.graph import draw_graph
from windlass.dashboard.svg.layered_layout import drop_implied, find_ranks, lay_out
from windlass.dashboard.svg.step_groups import collapse
from windlass.operations.workflow_graph import Workflow
from windlass.operations.workflow_path import describe_path, estimate_saving
from windlass.operations.workflow_rows import make_bars, summarize

NOW: Micros = START + 100 * SECOND
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x00\n"
STATES = tuple(State)


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> tuple[int, list[tuple[int, int]]]:
    """Return a number of nodes and edges from smaller to larger numbers."""
    nodes = draw(st.integers(1, most))
    pairs = [(upper, lower) for lower in range(nodes) for upper in range(lower)]
    return nodes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=60)) if pairs else []


@given(graphs())
@settings(max_examples=120, deadline=None)
def test_boxes_never_overlap_and_edges_go_down(graph: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, edges = graph

    layout = lay_out([(176.0, 56.0 + node % 3 * 10) for node in range(nodes)], edges)

    for one, other in combinations(layout.boxes, 2):
        apart = one.x + one.width <= other.x + 0.01 or other.x + other.width <= one.x + 0.01
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    for (upper, lower), points in zip(edges, layout.edges, strict=True):
        assert layout.boxes[upper].rank < layout.boxes[lower].rank
        assert points[0] == (layout.boxes[upper].x + 88, layout.boxes[upper].y + layout.boxes[upper].height)
        assert points[-1] == (layout.boxes[lower].x + 88, layout.boxes[lower].y)
        assert all(above[1] <= below[1] for above, below in pairwise(points))
    for box in layout.boxes:
        assert box.x >= -0.01
        assert box.x + box.width <= layout.width + 0.01
        assert box.y + box.height <= layout.height + 0.01


def test_long_edges_pass_beside_the_boxes_of_the_layers_between() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (4, 3)]

    layout = lay_out([(176.0, 56.0)] * 5, edges)

    for points in layout.edges:
        for (x, top), (_, bottom) in zip(points[1:-1:2], points[2:-1:2], strict=True):
            assert not any(
                box.x < x < box.x + box.width and box.y < bottom and top < box.y + box.height for box in layout.boxes
            )


def test_a_graph_that_can_be_drawn_without_crossings_has_none() -> None:
    tree = [(child // 2, child) for child in range(1, 31)]
    shuffled = [6, 3, 1, 5, 2, 4]
    ladder = [(top, 6 + shuffled[top] - 1) for top in range(6)]

    assert lay_out([(10.0, 10.0)] * 31, tree).crossings == 0
    assert lay_out([(10.0, 10.0)] * 12, ladder).crossings == 0


def test_a_cycle_is_refused_and_an_empty_graph_is_empty() -> None:
    with pytest.raises(ValueError, match="cycle"):
        find_ranks(2, [(0, 1), (1, 0)])
    assert lay_out([], []).boxes == []


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_edges_that_a_longer_way_implies_are_dropped_and_no_others(graph: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, edges = graph

    drawn = drop_implied(nodes, edges, frozenset())

    assert _reachable(nodes, drawn) == _reachable(nodes, edges)
    for edge in drawn:
        assert _reachable(nodes, [each for each in drawn if each != edge]) != _reachable(nodes, edges)
    assert drop_implied(nodes, edges, frozenset(edges)) == sorted(set(edges))


def _reachable(nodes: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(nodes)]
    for upper in range(nodes - 1, -1, -1):
        for above, lower in edges:
            if above == upper:
                found[upper] |= {lower} | found[lower]
    return found


@given(graphs(most=40), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=120, deadline=None)
def test_every_step_is_in_exactly_one_group(graph: tuple[int, list[tuple[int, int]]], handlers: int, most: int) -> None:
    nodes, edges = graph
    workflow = a_workflow(
        edges, nodes, handler=lambda place: f"h{place % handlers}", state=lambda place: STATES[place % len(STATES)]
    )

    found = collapse(workflow, most=most)

    assert sorted(place for group in found.groups for place in group.places) == list(range(nodes))
    assert sum(sum(group.states.values()) for group in found.groups) == nodes
    assert len(found.groups) <= max(most, 1)
    find_ranks(len(found.groups), found.edges)  # Raises if they form a cycle.
    of = {place: number for number, group in enumerate(found.groups) for place in group.places}
    reach = _all_reachable(len(found.groups), found.edges)
    for upper, lower in edges:
        assert of[upper] == of[lower] or of[lower] in reach[of[upper]]
    critical = {place for group in found.groups if group.critical for place in group.places}
    assert set(workflow.critical) <= critical
    assert found.critical <= set(found.edges)


def _all_reachable(nodes: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    ranks = find_ranks(nodes, edges)
    found: list[set[int]] = [set() for _ in range(nodes)]
    for upper in sorted(range(nodes), key=lambda node: -ranks[node]):
        for above, lower in edges:
            if above == upper:
                found[upper] |= {lower} | found[lower]
    return found


def _fan(tasks: int) -> list[tuple[int, int]]:
    return [(0, each) for each in range(1, tasks - 1)] + [(each, tasks - 1) for each in range(1, tasks - 1)]


def _random(tasks: int) -> list[tuple[int, int]]:
    rng = Random(1)
    return [
        (each, place) for place in range(1, tasks) for each in {rng.randrange(max(0, place - 50), place) for _ in "ab"}
    ]


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        (_fan(10_000), ["step0", "part ×9,998", "step9999"]),
        ([(place, place + 1) for place in range(9_999)], ["step0", "step1", "part ×9,997", "step9999"]),
        ([(place, place + 2_500) for place in range(7_500)], ["part ×2,500"] * 4),
        (_random(10_000), None),
    ],
    ids=["fan", "chain", "parallel chains", "random"],
)
def test_ten_thousand_steps_become_a_readable_picture(edges: list[tuple[int, int]], labels: list[str] | None) -> None:
    workflow = a_workflow(edges, 10_000, handler=lambda _: "part")

    found = collapse(workflow)
    drawn = draw_graph(workflow, found, NOW, link=lambda _: None, title="flow")

    assert len(found.groups) <= step_groups.MOST_GROUPS
    assert len(drawn) < 60_000
    names = [node.text for node in ElementTree.fromstring(drawn).iter("text") if node.get("class") == "graph-name"]
    assert labels is None or names == labels


@pytest.mark.parametrize("shape", [_fan, _random])
def test_the_work_for_a_picture_grows_with_the_number_of_steps_and_not_faster(
    shape: Callable[[int], list[tuple[int, int]]],
) -> None:
    def draw(steps: int) -> int:
        workflow = a_workflow(shape(steps), steps, handler=lambda _: "part")
        return count_calls(lambda: draw_graph(workflow, collapse(workflow), NOW, link=lambda _: None, title="flow"))

    assert draw(8_000) < 2.5 * draw(4_000)


def count_calls(action: Callable[[], object]) -> int:
    """Return how many functions were called, in Python and in C: the amount of work, whatever else the machine does."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def test_the_picture_does_not_change_with_the_states_of_the_steps() -> None:
    edges = _fan(200)
    before = collapse(a_workflow(edges, 200, handler=lambda _: "part", state=lambda _: State.WAITING))
    after = collapse(a_workflow(edges, 200, handler=lambda _: "part", state=lambda place: STATES[place % 9]))

    assert [group.places for group in before.groups] == [group.places for group in after.groups]
    assert before.groups[1].state is State.WAITING
    assert after.groups[1].state is State.FAILED


def test_many_different_handlers_side_by_side_are_cut_to_the_width_of_a_page() -> None:
    workflow = a_workflow(_fan(32), 32, took=lambda place: 9.0 if place == 20 else 1.0)

    found = collapse(workflow)

    ranks = find_ranks(len(found.groups), found.edges)
    assert max(ranks.count(rank) for rank in ranks) == step_groups.MOST_WIDE
    assert [group.label for group in found.groups if group.tasks > 1] == ["21 steps"]
    assert [group.label for group in found.groups if 20 in group.places] == ["step20"]


def test_names_from_outside_are_shown_as_text() -> None:
    workflow = a_workflow(_fan(6), 6, handler=lambda _: HOSTILE, key=lambda _: HOSTILE)
    bars, _ = make_bars(workflow, summarize(workflow, 10), NOW)

    graph = draw_graph(workflow, collapse(workflow), NOW, link=lambda _: f'x"{HOSTILE}', title=HOSTILE)
    gantt = draw_gantt(bars, start=START, end=NOW, title=HOSTILE, link=lambda _: HOSTILE)

    for drawn in (graph, gantt):
        tree = ElementTree.fromstring(drawn)  # Well-formed, and no element that a name brought with it.
        assert {node.tag for node in tree.iter()} <= {
            "svg", "title", "desc", "g", "a", "path", "rect", "text", "tspan", "line", "defs", "pattern"
        }  # fmt: skip
        assert "\u202e" not in drawn
        assert not any(
            "style" in node.attrib or any(key.startswith("on") for key in node.attrib) for node in tree.iter()
        )


def _text(drawn: str, look: str) -> list[str]:
    return [
        "".join(node.itertext()) for node in ElementTree.fromstring(drawn).iter("text") if look == node.get("class")
    ]


def _shop(**options: object) -> Workflow:
    names = ("reserve", "charge", "pack", "fraud", "ship")
    times = (0.2, 0.4, 1.1, 0.2, 0.4)
    edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4)]
    return a_workflow(
        edges, 5, handler=lambda place: names[place], took=lambda place: times[place], waited=lambda _: 0.0, **options
    )  # fmt: skip


def test_a_box_says_state_time_and_slack_and_the_critical_path_is_marked() -> None:
    workflow = _shop(key=lambda place: ("reserve", "charge", "pack", "fraud", "ship")[place])

    drawn = draw_graph(workflow, collapse(workflow), NOW, link=lambda group: f"tasks/{group.places[0]}", title="shop")

    assert _text(drawn, "graph-note") == [
        "completed · 0.2 s",
        "completed · slack 0.5 s",
        "completed · 1.1 s",
        "completed · slack 0.5 s",
        "completed · 0.4 s",
    ]
    tree = ElementTree.fromstring(drawn)
    titles = [node.findtext("title") or "" for node in tree.iter("a")]
    assert "charge: completed, waited 0 s, worked 0.4 s, slack 0.5 s" in titles
    assert [title.split(":")[0] for title in titles if "critical path" in title] == ["reserve", "pack", "ship"]
    assert sum("critical" in (node.get("class") or "") for node in tree.iter("path")) == 2


def test_the_lever_names_the_largest_part_of_the_path_and_what_half_of_it_would_gain() -> None:
    workflow = _shop()

    path = describe_path(workflow, NOW)

    assert path.lever is not None
    assert path.lever.sentence == "pack is 65% of the path; twice as fast ends the workflow 0.5 s earlier."
    assert path.worked == path.length == 1_700_000
    # Half of 1.1 s would be 0.55 s, but then charge and fraud, with 0.6 s, decide.
    assert estimate_saving(workflow, "pack", NOW) == 500_000
    assert estimate_saving(workflow, "fraud", NOW) == 0
    assert estimate_saving(workflow, "reserve", NOW) == 100_000


def test_a_gantt_chart_shows_waiting_and_working_apart_and_the_deadline() -> None:
    workflow = a_workflow([(0, 1)], 2, took=lambda _: 1.0, waited=float, state=_running)
    now = START + 3 * SECOND
    bars, left_out = make_bars(workflow, summarize(workflow, 10), now)

    drawn = draw_gantt(bars, start=START, end=now, title="flow", deadline=START + 4 * SECOND)

    rects = [node.attrib for node in ElementTree.fromstring(drawn).iter("rect") if node.get("class") != "gantt-row"]
    assert [(rect["class"], rect["x"], rect["width"]) for rect in rects] == [
        ("gantt-worked state-completed", "0.00%", "25.00%"),
        ("gantt-waited", "25.00%", "25.00%"),
        ("gantt-worked state-leased", "50.00%", "25.00%"),
    ]
    [line] = [node for node in ElementTree.fromstring(drawn).iter("line") if node.get("class") == "gantt-deadline"]
    assert line.get("x1") == "100.00%"
    assert left_out == {}
    far = draw_gantt(bars, start=START, end=now, title="flow", deadline=START + 400 * SECOND)
    assert "gantt-deadline" not in far


def _running(place: int) -> State:
    return State.LEASED if place else State.COMPLETED
