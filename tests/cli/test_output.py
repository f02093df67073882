"""How results look: by lines, in columns, in colour only where somebody sees it; and lengths of time in words."""

from __future__ import annotations

import sys

import click
import pytest

from tests.cli.conftest import Windlass, lines
from windlass.cli import output
from windlass.cli.time_options import Times, length, named_zone
from windlass.core.lifecycle import State

HOUR = 3_600_000_000
NOON = 1_800_014_400_000_000


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output is a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


def test_older_reads_speak_by_lines_too(windlass: Windlass) -> None:
    for name in ("a", "b"):
        assert windlass("token", "create", name, "--scope", "read").exit_code == 0

    assert [token["name"] for token in lines(windlass("token", "ls", "--jsonl"))] == ["a", "b"]


def test_colour_is_for_terminals(terminal: pytest.MonkeyPatch) -> None:
    assert output.painted("✗ failed", State.FAILED) == click.style("✗ failed", fg="red")

    terminal.setenv("NO_COLOR", "1")

    assert output.painted("✗ failed", State.FAILED) == "✗ failed"


def test_elsewhere_there_is_no_colour() -> None:
    assert output.painted("✗ failed", State.FAILED) == "✗ failed"


def test_columns_are_as_wide_as_what_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("name", "#tasks"), [[click.style("mail", fg="red"), "1,000"], ["a\nb", "7"]])

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
def test_a_length_of_time_is_told_in_its_largest_unit(span: int, words: str) -> None:
    assert length(span) == words


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
def test_a_moment_is_told_both_ways(instant: int | None, words: str) -> None:
    assert Times(now=NOON, zone=named_zone("Europe/Berlin")).both(instant) == words
