"""Commands name the store that they use, and reading commands never create one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Windlass
from windlass.cli.main import main


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current directory, without a store in the environment."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    return folder


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    "words",
    [
        "tasks ls",
        "queues ls",
        "workers ls",
        "dead ls",
        "cron ls",
        "pool show",
        "audit ls",
        "tenants ls",
        "workflows ls",
        "breaker ls",
        "token ls",
        "queues pause mail",
        "db status",
        "doctor",
        "enqueue mail --unchecked",
    ],
)
def test_a_command_does_not_create_the_default_database(empty: Path, words: str) -> None:
    result = run(*words.split())

    assert result.exit_code == 8, result.output
    assert "windlass.db" in result.stderr
    assert not list(empty.iterdir())


def test_the_error_says_where_the_store_was_looked_for(empty: Path) -> None:
    result = run("tasks", "ls")

    assert "sqlite:///windlass.db (default)" in result.stderr
    assert "--store" in result.stderr


def test_a_task_can_be_submitted_to_a_new_database_that_is_named(empty: Path) -> None:
    result = run("enqueue", "mail", "--unchecked", "--store", "sqlite:///new.db")

    assert result.exit_code == 0, result.output
    assert (empty / "new.db").exists()
    assert run("tasks", "ls", "--store", "sqlite:///new.db").exit_code == 0


@pytest.mark.parametrize("words", ["tasks ls", "audit ls", "queues ls", "db status", "queues pause mail"])
def test_json_names_the_store(windlass: Windlass, url: str, words: str) -> None:
    found = json.loads(windlass(*words.split(), "--json").stdout)

    assert found["store"] == url


def test_a_receipt_names_the_store(windlass: Windlass, url: str) -> None:
    assert json.loads(windlass("enqueue", "mail", "to=ann", "--json").stdout)["store"] == url
