"""A secret that is stored everywhere is printed nowhere."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Windlass
from tests.support.builders import a_session, claim_one, report, submit_one
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Settlement
from windlass.core.task import Progress
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

SECRET = "hunter2hunter2"
TEXT = f"password={SECRET} at postgresql://u:{SECRET}@db/x"


@pytest.fixture
def ids(store: Store) -> dict[str, str]:
    """Tasks whose arguments, output, errors, reasons and progress contain the secret."""
    args = {"to": "ann", "password": SECRET, "url": f"https://u:{SECRET}@host/"}
    failed = submit_one(store, handler="mail", args=args, key="a", workflow="w")
    session = a_session(store, about=f'{{"token": "{SECRET}"}}')
    claim = claim_one(store, session)
    store.progress([Progress(lease=claim.lease, message=TEXT)])
    report(store, claim, Raised(Error(kind="ValueError", message=TEXT, traceback=TEXT), give_up=True))
    done = submit_one(store, handler="mail", args=args, key="b", workflow="w")
    claim = claim_one(store, session)
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, result=f'{{"token": "{SECRET}"}}', log=TEXT))])
    store.note([Entry(subject="x/y", action="z", text=TEXT, data=f'{{"token": "{SECRET}"}}')])
    return {"failed": str(failed), "done": str(done)}


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
