"""How results look: JSON lines, tables, colors, durations and times."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Windlass, lines
from tests.unit.values import a_stored_task
from windlass.cli import output
from windlass.cli.options import find_zone
from windlass.core.lifecycle import State
from windlass.operations.presentation import Times, format_attempts, format_span

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


def test_a_terminal_gets_colors_unless_no_color_is_set(
    capsys: pytest.CaptureFixture[str], terminal: pytest.MonkeyPatch
) -> None:
    terminal.setattr("click.utils.should_strip_ansi", lambda *_: False)
    terminal.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.echo(output.color("✗ failed", State.FAILED))
    assert capsys.readouterr().out == click.style("✗ failed", fg="red") + "\n"

    terminal.setenv("NO_COLOR", "1")

    assert output.color("✗ failed", State.FAILED) == "✗ failed"


def test_a_pipe_gets_no_colors() -> None:
    assert output.color("✗ failed", State.FAILED) == "✗ failed"


def test_columns_fit_their_visible_text(capsys: pytest.CaptureFixture[str], terminal: pytest.MonkeyPatch) -> None:
    output.print_table(("name", "#tasks"), [[output.color("mail", State.FAILED), "1,000"], ["a\nb", "7"]])

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


@pytest.mark.parametrize(
    ("crashes", "losses", "text"),
    [
        (0, 0, "2"),
        (1, 0, "2, plus 1 crash"),
        (3, 1, "2, plus 3 crashes and 1 lost node"),
        (0, 2, "2, plus 2 lost nodes"),
    ],
)
def test_crashes_and_losses_are_shown_only_if_there_were_any(crashes: int, losses: int, text: str) -> None:
    assert format_attempts(a_stored_task(attempts=2, crashes=crashes, losses=losses)) == text


LISTS = ["tasks ls", "dead ls", "queues series", "tenants ls", "workers ls", "workflows ls", "token ls", "audit ls"]


@pytest.mark.parametrize("command", LISTS)
def test_an_empty_list_is_a_note_without_a_header(windlass: Windlass, command: str) -> None:
    result = windlass(*command.split())

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("queues resume mail --reason x", 2, "Error: No such option '--reason'. Did you mean '--why'?\n"),
        ("enqueue mial to=ann", 2, "windlass: handler='mial' is unknown. Did you mean mail?\n"),
        ("enqueue report", 2, "windlass: handler='report' is unknown. Published handlers: mail.\n"),
        (
            "why 12345678",
            4,
            "windlass: Unknown task: 12345678. No recent task id starts or ends with it. Use the full id.\n",
        ),
        (
            "tasks cancel",
            2,
            "windlass: No task is selected. Use ids, or a filter such as --queue mail or state:failed.\n",
        ),
    ],
)
def test_an_error_says_what_to_do(windlass: Windlass, command: str, status: int, text: str) -> None:
    result = windlass(*command.split())

    assert (result.exit_code, result.stderr.endswith(text)) == (status, True), result.stderr


def test_without_any_handler_the_flag_that_skips_the_check_is_named(windlass: Windlass, tmp_path: Path) -> None:
    result = windlass("enqueue", "mail", "--store", f"sqlite:///{tmp_path / 'new.db'}")

    assert "No node has published a handler yet. Start a worker, or skip this check with `--unchecked`" in result.stderr


@pytest.mark.parametrize(
    ("widths", "kept", "columns", "expected"),
    [
        ([5, 5], [False, False], 80, [5, 5]),
        ([36, 40, 10], [True, False, False], 70, [36, 20, 10]),
        ([36, 9, 9], [True, False, False], 40, [36, 8, 8]),
        ([30, 30], [True, True], 20, [30, 30]),
    ],
)
def test_columns_shrink_to_fit_a_narrow_terminal(
    widths: list[int], kept: list[bool], columns: int, expected: list[int]
) -> None:
    assert output.fit_widths(widths, kept, columns) == expected


def test_a_table_fits_a_narrow_terminal_and_keeps_its_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")

    output.print_table(("id", "what", "#n"), [["0" * 36, "a very long text that does not fit here", "7"]])

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert "0" * 36 in lines[1]
    assert "…" in lines[1]
