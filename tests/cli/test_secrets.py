"""A secret that is put everywhere is looked for everywhere."""

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
TOLD = f"password={SECRET} at postgresql://u:{SECRET}@db/x"


@pytest.fixture
def ids(store: Store) -> dict[str, str]:
    """Tasks whose arguments, output, errors, reasons and progress hold the secret."""
    args = {"to": "ann", "password": SECRET, "url": f"https://u:{SECRET}@host/"}
    failed = submit_one(store, handler="mail", args=args, key="a", workflow="w")
    session = a_session(store, about=f'{{"token": "{SECRET}"}}')
    claim = claim_one(store, session)
    store.progress([Progress(lease=claim.lease, message=TOLD)])
    report(store, claim, Raised(Error(kind="ValueError", message=TOLD, traceback=TOLD), give_up=True))
    done = submit_one(store, handler="mail", args=args, key="b", workflow="w")
    claim = claim_one(store, session)
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, result=f'{{"token": "{SECRET}"}}', log=TOLD))])
    store.note([Entry(subject="x/y", action="z", text=TOLD, data=f'{{"token": "{SECRET}"}}')])
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
def test_no_read_shows_a_secret(windlass: Windlass, ids: dict[str, str], words: list[str], form: list[str]) -> None:
    said = windlass(*(ids.get(word, word) for word in words), *form)

    assert said.exception is None or isinstance(said.exception, SystemExit)
    assert said.output.strip(), "it must have said something"
    assert SECRET not in said.output


def test_neither_does_a_bug_nor_its_retry(windlass: Windlass, ids: dict[str, str]) -> None:
    group = windlass("dead", "ls", "--jsonl").stdout.partition('"group":"')[2][:8]

    said = [windlass("dead", "show", group), windlass("dead", "show", group, "--json")]
    said.append(windlass("dead", "retry", group, "--canary", "--yes", "--patience", "0s"))
    said.append(windlass("dead", "edit", ids["failed"], "copies=x"))

    assert all(each.output.strip() for each in said)
    assert [each.output for each in said if SECRET in each.output] == []
