"""A SQLite store with a manual clock, and a fixture that runs commands on it in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from tests.support.json_output import without_store
from tests.support.processes import open_store
from windlass.cli.main import main
from windlass.clock import ManualClock
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.stores.protocol import Store

PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}},
    "required": ["to"],
}
NOON = 1_800_014_400_000_000
"""2027-01-15 12:00:00 UTC."""


class Windlass(Protocol):
    """Runs a command with arguments and standard input."""

    def __call__(self, *words: str, stdin: str | bytes | None = None) -> Result: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'windlass.db'}"


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[Store]:
    """A store with one handler, `mail`, and one cron, `nightly`."""
    store = open_store(url.removeprefix("sqlite:///"), clock)
    store.publish(
        Manifest(
            handlers=(HandlerInfo(name="mail", queue="mail", parameters=json.dumps(PARAMETERS)),),
            crons=(
                CronInfo(
                    name="nightly",
                    handler="mail",
                    schedule="30 2 * * *",
                    timezone="Europe/Berlin",
                    args='{"to": "ops"}',
                ),
            ),
        )
    )
    yield store
    store.close()


@pytest.fixture
def windlass(url: str, store: Store, clock: ManualClock) -> Windlass:
    def run(*words: str, stdin: str | bytes | None = None) -> Result:
        env = {"WINDLASS_URL": url, "WINDLASS_TZ": "Europe/Berlin", "COLUMNS": "100"}
        return CliRunner().invoke(main, words, input=stdin, env=env, obj=clock)

    return run


def read(result: Result) -> Any:
    """Return the JSON document that a command printed, without the name of the store; a list as itself."""
    assert result.exit_code == 0, result.output
    return without_store(json.loads(result.stdout))


def lines(result: Result) -> list[Any]:
    """Return the JSON lines that a command printed."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
