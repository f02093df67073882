"""docs/reference/cli.md is true: every command and every exit status is there, and none that is not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from windlass.cli.main import COMMANDS, EXITS, main

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def leaves(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


ALL = dict(leaves(main))
NOT_FOR_PROGRAMS = {"worker", "up", "server", "openapi", "demo", "completion", "deploy", "top", "init"}
CHANGES = {"set", "freeze", "pause", "resume", "tune", "open", "close", "revoke", "backup", "raise-epoch"}


def test_every_command_is_in_the_docs_and_no_other() -> None:
    told = {
        tuple(re.findall(r"^(?:[a-z-]+ ?)+", line)[0].split())
        for line in re.findall(r"^\| `windlass ([^`]*)`", PAGE, re.MULTILINE)
    }

    assert told == set(ALL)


def test_the_table_of_exit_statuses_is_the_one_that_is_followed() -> None:
    rows = re.findall(r"^\| (\d) \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    told = {code: int(status) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert told == EXITS
    assert sorted({int(status) for status, _ in rows}) == [0, 1, *sorted(set(EXITS.values()))]


READS = [words for words in ALL if words[0] not in NOT_FOR_PROGRAMS and words[-1] not in CHANGES]


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_every_read_speaks_to_programs_too(words: tuple[str, ...]) -> None:
    options = {option for parameter in ALL[words].params for option in parameter.opts}

    assert {"--json", "--jsonl"} <= options


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_says_what_it_does(words: tuple[str, ...]) -> None:
    assert ALL[words].help, words


def test_help_imports_no_command_and_none_of_their_libraries() -> None:
    code = (
        "import sys\nfrom windlass.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())

    assert all(name in done.stdout for name in COMMANDS)
    assert {name for name in loaded if name.startswith("windlass")} == {
        "windlass",
        "windlass.cli",
        "windlass.cli.main",
        "windlass.errors",
    }
    assert loaded.isdisjoint({"rich", "msgspec", "apsw", "psycopg", "starlette", "uvicorn", "yaml", "cronsim"})
