"""Charts: well-formed, escaped, self-contained, and true to the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

import windlass
from windlass.simulation.charts import (
    Panel,
    draw_stairs,
    draw_svg,
    reduce_points,
    render_page,
    round_scale,
    write_chart,
)
from windlass.simulation.load import InvalidLoad
from windlass.simulation.run import SimulationResult, Timeline

NASTY = """</title><script>alert("1")</script> & 'it'"""


@pytest.fixture(scope="module")
def result() -> SimulationResult:
    return windlass.simulate("step", seconds=300, start_delay="5s")


def test_a_picture_is_well_formed_and_names_what_it_shows(result: SimulationResult) -> None:
    root = ElementTree.fromstring(draw_svg(result))
    words = " ".join(root.itertext())

    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for word in ("step · slo", "Load, tasks per second", "ready", "starting", "needed", "goal 10 s", "0:05"):
        assert word in words


def test_whatever_a_load_is_called_it_stays_text(result: SimulationResult) -> None:
    named = replace(result, load=NASTY, policy=NASTY, ledger=[replace(result.ledger[0], why=NASTY)])

    picture, whole = draw_svg(named), page(named)

    assert NASTY in " ".join(ElementTree.fromstring(picture).itertext())
    assert "<script" not in picture + whole
    assert whole.count("</title>") == 1


def test_a_page_is_well_formed_and_has_every_policy_with_its_ledger(result: SimulationResult) -> None:
    other = replace(result, policy="other")
    whole = render_page([result, other])
    parser = Balanced()
    parser.feed(whole)

    assert parser.open == []
    assert whole.count("<svg") == 2
    assert whole.count(f"{len(result.ledger)} resizes") == 2
    assert "default-src 'none'" in whole


def page(result: SimulationResult) -> str:
    return render_page([result])


@pytest.mark.parametrize("form", [draw_svg, page])
def test_nothing_is_asked_for_from_outside(form: Callable[[SimulationResult], str], result: SimulationResult) -> None:
    text = form(result).replace("http://www.w3.org/2000/svg", "")

    assert not re.search(r"https?:|//|@import|<script|<link|<img|\bon\w+=|url\((?!#)", text)
    assert "prefers-color-scheme:dark" in text


def test_a_run_without_tasks_or_seconds_can_be_drawn(result: SimulationResult) -> None:
    drawn = ElementTree.fromstring(draw_svg(replace(result, timeline=Timeline(), recovery=None)))

    assert drawn.tag.endswith("svg")


def test_the_cut_of_two_pictures_on_a_page_is_not_confused(result: SimulationResult) -> None:
    whole = render_page([result, result])
    cuts = re.findall(r'clipPath id="([^"]+)"', whole)

    assert len(set(cuts)) == len(cuts) == 4


def test_what_is_too_high_is_cut_off_at_the_top() -> None:
    panel = Panel(10.0, 100, 200)

    assert (panel.get_y(0), panel.get_y(5), panel.get_y(10), panel.get_y(50)) == (200, 150, 100, 100)


def test_a_line_stays_on_a_value_until_the_next() -> None:
    assert draw_stairs([(0, 5), (10, 5), (20, 7)]) == "M0.0 5.0H20.0V7.0H936"


def test_a_long_run_has_as_many_points_as_can_be_seen() -> None:
    values = reduce_points(list(range(100_000)), max)

    assert len(values) <= 440
    assert values[-1] == 99_999


@pytest.mark.parametrize(("most", "top"), [(0.7, 0.8), (1, 1), (13, 16), (99, 100), (101, 160), (1e-9, 1e-9)])
def test_a_scale_ends_at_a_round_number_above(most: float, top: float) -> None:
    assert round_scale(most) == pytest.approx(top)


def test_a_file_is_what_its_ending_says_or_refused(result: SimulationResult, tmp_path: Path) -> None:
    write_chart(tmp_path / "a.svg", [result])
    write_chart(tmp_path / "a.html", [result])

    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(InvalidLoad, match=r"a\.png"):
        write_chart(tmp_path / "a.png", [result])
    with pytest.raises(InvalidLoad, match="Cannot write"):
        write_chart(tmp_path / "no" / "a.svg", [result])


class Balanced(HTMLParser):
    """Which elements are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
