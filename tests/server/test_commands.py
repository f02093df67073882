"""`windlass token` on a SQLite file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import main

Run = Callable[..., Result]


@pytest.fixture
def windlass(tmp_path: Path) -> Run:
    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, env={"WINDLASS_URL": f"sqlite:///{tmp_path / 'tasks.db'}"})

    return run


def test_a_token_is_created_shown_once_listed_and_revoked(windlass: Run) -> None:
    limits = ("--tenant", "acme", "--rate-limit", "5")
    made = windlass("token", "create", "ci", "--scope", "submit", "--scope", "read", *limits)
    [listed] = json.loads(windlass("token", "ls", "--json").stdout)["tokens"]
    people = windlass("token", "ls")
    revoked = windlass("token", "revoke", "ci")
    none = json.loads(windlass("token", "ls", "--json").stdout)["tokens"]

    secret = made.stdout.strip()
    assert (made.exit_code, secret.startswith("wdl_"), "not shown again" in made.stderr) == (0, True, True)
    assert (listed["name"], listed["scopes"], listed["tenant"]) == ("ci", ["read", "submit"], "acme")
    assert "acme" in people.stdout
    assert secret not in people.stdout + json.dumps(listed)
    assert (revoked.exit_code, none) == (0, [])
    again = windlass("token", "revoke", "ci")
    assert (again.exit_code, again.stderr) == (
        4,
        "windlass: Unknown token: 'ci'. `windlass token ls` lists the tokens.\n",
    )


def test_a_token_expires_after_90_days_unless_the_command_says_otherwise(windlass: Run) -> None:
    windlass("token", "create", "usual", "--scope", "read")
    windlass("token", "create", "short", "--scope", "read", "--expires", "1h")
    windlass("token", "create", "lasting", "--scope", "read", "--expires", "none")

    listed = {token["name"]: token for token in json.loads(windlass("token", "ls", "--json").stdout)["tokens"]}

    def lasts(name: str) -> float:
        created, expires = (datetime.fromisoformat(listed[name][field]) for field in ("created", "expires"))
        return (expires - created).total_seconds()

    assert lasts("usual") == 90 * 86_400
    assert lasts("short") == 3_600
    assert listed["lasting"]["expires"] is None


def test_a_name_can_be_used_again_after_it_was_revoked(windlass: Run) -> None:
    first = windlass("token", "create", "ci", "--scope", "read").stdout
    taken = windlass("token", "create", "ci", "--scope", "read")
    windlass("token", "revoke", "ci")
    again = windlass("token", "create", "ci", "--scope", "read", "--expires", "none", "--json")

    assert (taken.exit_code, "already" in taken.stderr) == (5, True)
    assert json.loads(again.stdout)["token"] != first.strip()
    [listed] = json.loads(windlass("token", "ls", "--json").stdout)["tokens"]
    assert listed["expires"] is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["token", "create", "ci"], "--scope"),
        (["token", "create", "ci", "--scope", "all"], "--scope"),
        (["token", "create", "a b", "--scope", "read"], "token='a b'"),
        (["token", "create", "ci", "--scope", "read", "--expires", "soon"], "expires"),
        (["token", "create", "ci", "--scope", "read", "--expires", "0s"], "expires"),
        (["token", "create", "ci", "--scope", "read", "--tenant", "a b"], "tenant"),
        (["token", "create", "ci", "--scope", "read", "--rate-limit", "0"], "--rate-limit"),
    ],
)
def test_invalid_options_are_refused(windlass: Run, words: list[str], named: str) -> None:
    windlass("db", "migrate")

    result = windlass(*words)

    assert (result.exit_code, named in result.stderr) == (2, True), result.output
    assert "Traceback" not in result.output
