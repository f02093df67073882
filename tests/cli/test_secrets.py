"""A secret that is stored everywhere is printed nowhere."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Windlass
from tests.operations.secrets import SECRET, SecretStore
from windlass.stores.protocol import Store


@pytest.fixture
def ids(store: Store) -> dict[str, str]:
    """A store with the secret in every text, and the ids of what it has."""
    planted = SecretStore(store)
    return {"failed": str(planted.failed), "done": str(planted.done)}


READS = [
    ["tasks", "ls"],
    ["tasks", "show", "failed"],
    ["tasks", "show", "done"],
    ["tasks", "logs", "done"],
    ["tasks", "logs", "-f", "done"],
    ["tasks", "wait", "failed", "done"],
    ["why", "failed"],
    ["dead", "ls"],
    ["workflows", "show", "w"],
    ["workflows", "graph", "w"],
    ["workflows", "gantt", "w"],
    ["workers", "ls"],
    ["audit", "ls"],
    ["cron", "ls"],
    ["queues", "ls"],
    ["pool", "show"],
    ["pool", "show", "mail"],
    ["pool", "history", "mail"],
    ["breaker", "ls"],
    ["tenants", "ls"],
    ["token", "ls"],
]


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"]], ids=["text", "json", "jsonl"])
@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_no_command_prints_a_secret(windlass: Windlass, ids: dict[str, str], words: list[str], form: list[str]) -> None:
    result = windlass(*(ids.get(word, word) for word in words), *form)

    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.output.strip(), "it must print something"
    assert SECRET not in result.output


def test_dead_letters_print_no_secret(windlass: Windlass, ids: dict[str, str]) -> None:
    group = windlass("dead", "ls", "--jsonl").stdout.partition('"group":"')[2][:8]

    results = [
        windlass("dead", "show", group),
        windlass("dead", "show", group, "--json"),
        windlass("dead", "retry", group, "--canary", "--yes", "--patience", "0s"),
        windlass("dead", "edit", ids["failed"], "copies=x"),
    ]

    assert all(each.output.strip() for each in results)
    assert [each.output for each in results if SECRET in each.output] == []
