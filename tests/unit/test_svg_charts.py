"""Charts over time, bars and sparklines: scales, gaps, empty charts, the table, and escaped labels."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.lifecycle import State
from windlass.dashboard.svg.bars import draw_share, draw_sparkline, draw_states
from windlass.dashboard.svg.elements import Markup, element, join
from windlass.dashboard.svg.scales import find_span_ticks, find_ticks, find_time_ticks, format_tick
from windlass.dashboard.svg.time_chart import (
    MOST_POINTS,
    NOTHING,
    Band,
    Line,
    Marker,
    Ticks,
    TimeChart,
    draw_time_chart,
)

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b\n"


def a_chart(*layers: Line | Band | Ticks, seconds: int = 600, **options: object) -> ElementTree.Element:
    chart = TimeChart(title="Load", start=START, end=START + seconds * SECOND, layers=layers, zone=UTC, **options)
    return ElementTree.fromstring(draw_time_chart(chart))


def find(tree: ElementTree.Element, look: str) -> list[ElementTree.Element]:
    return [node for node in tree.iter() if look in (node.get("class") or "").split()]


def test_text_and_attributes_are_escaped_and_markup_is_kept() -> None:
    inner = element("b", "x < y")

    outer = element("a", inner, HOSTILE, href=HOSTILE, hidden=True, title=None, data_n=1.25)

    assert isinstance(outer, Markup)
    assert outer.__html__() == outer
    assert outer.startswith(
        '<a href="&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;\\u202e\\x1b\\n" hidden data-n="1.2">'
    )
    assert "<b>x &lt; y</b>" in outer
    assert "<img" not in outer
    assert join("a<b", inner) == "a&lt;b<b>x &lt; y</b>"


@given(st.floats(1e-6, 1e9), st.integers(2, 8))
def test_ticks_are_round_evenly_spaced_and_cover_the_largest_value(most: float, count: int) -> None:
    ticks = find_ticks(most, count=count)

    assert ticks[0] == 0
    assert ticks[-1] >= most * 0.999
    assert len(ticks) <= count + 1
    assert all(later - earlier > 0 for earlier, later in itertools.pairwise(ticks))
    assert f"{ticks[1]:e}"[0] in "125"
    whole = find_ticks(most, count=count, whole=True)
    assert all(tick == int(tick) for tick in whole)


@given(st.integers(1, 10**9), st.integers(2, 8))
def test_time_ticks_are_inside_and_few(seconds: int, count: int) -> None:
    end = START + seconds * SECOND

    ticks = find_time_ticks(START, end, count=count, zone=UTC)

    assert len(ticks) <= count
    assert all(START <= tick <= end for tick in ticks)
    assert len({later - earlier for earlier, later in itertools.pairwise(ticks)}) <= 1
    spans = find_span_ticks(seconds * SECOND, count=count)
    assert spans[0] == 0
    assert len(spans) <= count + 1
    assert spans[-1] <= seconds * SECOND


def test_time_ticks_are_round_on_the_clock_of_the_zone() -> None:
    delhi = ZoneInfo("Asia/Kolkata")
    start = round(datetime(2026, 1, 5, 9, 20, tzinfo=delhi).timestamp()) * SECOND

    ticks = find_time_ticks(start, start + 5 * 3_600 * SECOND, zone=delhi)
    days = find_time_ticks(start, start + 4 * 86_400 * SECOND, zone=delhi)
    short = find_time_ticks(start, start + 50 * SECOND, zone=delhi)

    assert [format_tick(tick, ticks, delhi) for tick in ticks] == ["10:00", "11:00", "12:00", "13:00", "14:00"]
    assert [format_tick(tick, days, delhi) for tick in days] == ["6 Jan", "7 Jan", "8 Jan", "9 Jan"]
    assert [format_tick(tick, short, delhi) for tick in short][1] == "09:20:10"


def test_lines_have_gaps_and_steps_hold_until_the_end() -> None:
    rate = Line(label="rate", look="arrivals", points=[(START, 4), (START + SECOND, None), (START + 300 * SECOND, 8)])
    pool = Line(label="pool", look="workers", points=[(START, 1), (START + 300 * SECOND, 2)], steps=True, axis="right")

    tree = a_chart(rate, pool)

    [line] = find(find(tree, "chart-plot")[0], "arrivals")
    [step] = find(find(tree, "chart-plot")[0], "workers")
    assert line.get("d") == "M0 50h0.1M500 0h0.1"
    assert step.get("d") == "M0 66.7H500V33.3H1000"


def test_a_chart_says_its_values_in_words_and_as_a_table() -> None:
    rate = Line(label="rate", look="arrivals", unit="/s", points=[(START + n * 60 * SECOND, n) for n in range(10)])
    failed = Ticks(label="failed", look="failures", points=[(START + SECOND, 2), (START + 599 * SECOND, 3)])
    band = Band(label="forecast", look="forecast", points=[(START, 1, 2), (START + 500 * SECOND, 3, 4)], unit="/s")

    tree = a_chart(rate, failed, band, markers=[Marker(at=START + 300 * SECOND, label="deploy")], goal=5.0)

    svg = find(tree, "chart-svg")[0]
    assert svg.get("role") == "group"
    assert svg.findtext("title") == "Load"
    assert "rate: 9/s; failed: 5; forecast: 3/s to 4/s" in (svg.findtext("desc") or "")
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert rows[0] == ["time", "rate", "failed", "forecast"]
    assert rows[1] == ["22:13:20 +00:00", "0/s", "2", "1/s to 2/s"]
    assert sum(int(row[2]) for row in rows[1:]) == 5
    hits = find(tree, "chart-hit")
    assert hits[0].get("aria-label") == "22:13:20 +00:00 · rate 0/s · failed 2 · forecast 1/s to 2/s"
    assert [hit.get("tabindex") for hit in hits] == ["-1"] * (len(rows) - 2) + ["0"], "one stop, then arrow keys"
    assert [node.get("data-latest") for node in tree.iter("b")] == ["9/s", "5", "3/s to 4/s"]
    assert [node.text for node in find(tree, "chart-mark-label")] == ["deploy"]
    assert find(tree, "chart-goal")


@pytest.mark.parametrize("points", [[], [(START, None)]])
def test_an_empty_chart_says_so(points: list[tuple[int, float | None]]) -> None:
    tree = a_chart(Line(label="rate", look="arrivals", points=points))

    assert [node.text for node in find(tree, "chart-empty")] == [NOTHING]
    assert not list(tree.iter("table"))
    assert find(tree, "chart-time")


def test_each_axis_says_what_it_measures_and_zeros_have_a_readable_scale() -> None:
    idle = Line(label="arrived", look="arrivals", points=[(START, 0.0), (START + SECOND, 0.0)], unit="/s")
    workers = Line(label="workers", look="workers", points=[(START, 4.0)], steps=True, axis="right")

    labels = [label.text for label in find(a_chart(idle, workers), "chart-value")]

    assert "1/s" in labels
    assert "6 workers" in labels
    assert not any("e-" in (label or "") for label in labels)


@pytest.mark.parametrize(
    ("rate", "latest", "scale"),
    [
        (12.0, "12/s", ["5", "10", "15/s"]),
        (1 / 60, "1/min", ["0.5", "1/min"]),
        (3 / 1_800, "6/h", ["2", "4", "6/h"]),
    ],
)
def test_a_low_rate_is_shown_in_a_unit_in_which_it_can_be_read(rate: float, latest: str, scale: list[str]) -> None:
    tree = a_chart(Line(label="arrived", look="arrivals", points=[(START, rate)], unit="/s"))

    assert [label.text for label in find(tree, "chart-value")] == scale
    assert [value.text for value in find(tree, "chart-legend")[0].iter("b")] == [latest]


def test_each_column_leads_to_its_rows() -> None:
    failed = Ticks(label="failed", look="failures", points=[(START + SECOND, 2)])
    rate = Line(label="rate", look="arrivals", points=[(START, 1), (START + 599 * SECOND, 1)])

    def link(start: int, end: int, *, ticks: bool) -> str:
        return f"{(start - START) / SECOND:g} {(end - START) / SECOND:g} {ticks}"

    hits = find(a_chart(failed, rate, link=link), "chart-hit")

    assert [hit.tag for hit in hits[:2]] == ["a", "a"]
    assert [hit.get("href") for hit in hits[:2]] == ["0 12.5 True", "12.5 25 False"]


def test_a_long_series_is_thinned_but_keeps_its_peak() -> None:
    points = [(START + n * 10_000, 1_000.0 if n == 31_234 else n % 7) for n in range(60_000)]

    tree = a_chart(Line(label="rate", look="arrivals", points=points))

    path = find(find(tree, "chart-plot")[0], "arrivals")[0].get("d") or ""
    assert path.count("L") <= MOST_POINTS
    assert "520.6 0" in path


def test_labels_from_outside_are_shown_as_text() -> None:
    layers = [Line(label=HOSTILE, look="arrivals", points=[(START, 1)], unit=HOSTILE)]
    chart = TimeChart(
        title=HOSTILE, start=START, end=START + SECOND, layers=layers, markers=[Marker(at=START, label=HOSTILE)]
    )

    drawn = draw_time_chart(chart) + draw_share(0.5, label=HOSTILE) + draw_sparkline([1, 2], label=HOSTILE)

    tree = ElementTree.fromstring(f"<div>{drawn}</div>")
    assert not list(tree.iter("img"))
    assert not any(key.startswith("on") or key == "style" for node in tree.iter() for key in node.attrib)
    assert "\u202e" not in drawn


@given(st.dictionaries(st.sampled_from(State), st.integers(1, 10**7), min_size=1))
def test_a_bar_of_states_is_full_and_shows_every_state(states: dict[State, int]) -> None:
    tree = ElementTree.fromstring(draw_states(states))

    widths = [float(node.get("width") or 0) for node in tree.iter("rect")]
    assert len(widths) == len(states)
    assert min(widths) >= 1
    assert sum(widths) == pytest.approx(100, abs=0.5)
    assert f"{states[next(iter(states))]:,}" in (tree.findtext("title") or "")


def test_small_charts_say_what_they_show() -> None:
    share = ElementTree.fromstring(draw_share(0.41, label="41 % (due 33 %)", due=1 / 3))
    spark = ElementTree.fromstring(draw_sparkline([0, 2, 8, 4], label="tasks per second"))

    assert share.findtext("title") == "41 % (due 33 %)"
    assert [node.get("d") for node in share.iter("path")] == ["M33.3 -2V10"]
    assert spark.findtext("title") == "tasks per second: now 4, at most 8"
    assert draw_sparkline([], label="nothing") == ""
    assert ElementTree.fromstring(draw_states({})).findtext("title") == "no tasks"
