"""How results look: JSON lines, tables, colors, durations and times."""

from __future__ import annotations

import sys

import click
import pytest

from tests.cli.conftest import Windlass, lines
from windlass.cli import output
from windlass.cli.options import find_zone
from windlass.core.lifecycle import State
from windlass.operations.presentation import Times, format_span

HOUR = 3_600_000_000
NOON = 1_800_014_400_000_000


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output is a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


def test_jsonl_prints_one_object_per_line(windlass: Windlass) -> None:
    for name in ("a", "b"):
        assert windlass("token", "create", name, "--scope", "read").exit_code == 0

    assert [token["name"] for token in lines(windlass("token", "ls", "--jsonl"))] == ["a", "b"]


def test_a_terminal_gets_colors_unless_no_color_is_set(terminal: pytest.MonkeyPatch) -> None:
    assert output.color("✗ failed", State.FAILED) == click.style("✗ failed", fg="red")

    terminal.setenv("NO_COLOR", "1")

    assert output.color("✗ failed", State.FAILED) == "✗ failed"


def test_a_pipe_gets_no_colors() -> None:
    assert output.color("✗ failed", State.FAILED) == "✗ failed"


def test_columns_fit_their_visible_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("name", "#tasks"), [[click.style("mail", fg="red"), "1,000"], ["a\nb", "7"]])

    assert click.unstyle(capsys.readouterr().out).splitlines() == ["name  tasks", "mail  1,000", "a b       7"]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (0, "0 s"),
        (250_000, "0.25 s"),
        (59_000_000, "59 s"),
        (90_000_000, "1.5 min"),
        (3 * HOUR, "3 h"),
        (38 * HOUR, "1.6 d"),
        (24 * HOUR * 1_500, "1,500 d"),
    ],
)
def test_a_duration_is_formatted_in_its_largest_unit(span: int, words: str) -> None:
    assert format_span(span) == words


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        (NOON, "13:00:00 +01:00 · now"),
        (NOON - 180_000_000, "12:57:00 +01:00 · 3 min ago"),
        (NOON + HOUR, "14:00:00 +01:00 · in 1 h"),
        (NOON - 13 * HOUR - 1, "2027-01-14 23:59:59 +01:00 · 13 h ago"),
        (None, "–"),
    ],
)
def test_a_time_is_formatted_with_its_age(instant: int | None, words: str) -> None:
    assert Times(now=NOON, zone=find_zone("Europe/Berlin")).format(instant) == words
