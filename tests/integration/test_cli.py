"""Commands on both stores: output, JSON and exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from tests.support.builders import GAVE_UP, HOUR, a_session, claim_one, complete, report, submit_one, task_of
from tests.support.json_output import without_store
from tests.support.processes import open_store
from windlass.cli.main import main
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.task import Rate, TaskId
from windlass.stores.protocol import Store

UNKNOWN = "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"
PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}},
    "required": ["to"],
}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'windlass.db'}"
    return request.getfixturevalue("migrated_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with one handler, `mail`."""
    store = open_store(url.removeprefix("sqlite:///"))
    store.publish(Manifest(handlers=(HandlerInfo(name="mail", parameters=json.dumps(PARAMETERS)),), crons=()))
    yield store
    store.close()


@pytest.fixture
def windlass(url: str, store: Store) -> Callable[..., Result]:
    """Runs a command in this process."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, env={"WINDLASS_URL": url})

    return run


def read(result: Result) -> Any:
    """Return the JSON document that a command printed, without the name of the store; a list as itself."""
    assert result.exit_code == 0, result.output
    return without_store(json.loads(result.stdout))


def test_a_task_is_submitted_listed_and_shown(windlass: Callable[..., Result]) -> None:
    created = windlass("enqueue", "mail", "to=ann", "copies:=2", "--priority", "3", "--key", "k")
    id = created.stdout.strip()
    again = read(windlass("enqueue", "mail", "to=ann", "copies:=2", "--priority", "3", "--key", "k", "--json"))

    [listed] = read(windlass("tasks", "ls", "--json"))["tasks"]
    shown = read(windlass("tasks", "show", id, "--json"))
    table = windlass("tasks", "ls")

    assert created.exit_code == 0
    assert (again["id"], again["created"]) == (id, False)
    assert listed["id"] == shown["id"] == id
    assert (shown["args"]["copies"], shown["priority"], shown["state"]) == (2, 3, "runnable")
    assert id in table.stdout
    assert "mail" in windlass("tasks", "show", id).stdout


def test_a_task_is_submitted_to_run_at_most_once(windlass: Callable[..., Result], store: Store) -> None:
    once = TaskId(UUID(windlass("enqueue", "mail", "to=ann", "--at-most-once").stdout.strip()))
    often = TaskId(UUID(windlass("enqueue", "mail", "to=ann", "--max-crashes", "7").stdout.strip()))

    assert (task_of(store, once).rules.at_most_once, task_of(store, once).rules.max_crashes) == (True, 0)
    assert (task_of(store, often).rules.at_most_once, task_of(store, often).rules.max_crashes) == (False, 7)


def test_a_task_is_submitted_with_a_limit(windlass: Callable[..., Result], store: Store) -> None:
    amounts = ["--max-running", "2", "--max-rate", "10/1m", "--memory", "1000", "--slots", "2"]
    id = TaskId(UUID(windlass("enqueue", "mail", "to=ann", "--limit-key", "to:{to}", *amounts).stdout.strip()))

    rules = task_of(store, id).rules
    assert (rules.limit, rules.max_running, rules.rate) == ("to:ann", 2, Rate(10, timedelta(minutes=1)))
    assert (rules.memory, rules.slots) == (1000, 2)


def test_prerequisites_inherit_the_urgency_unless_they_should_not(
    windlass: Callable[..., Result], store: Store
) -> None:
    kept, raised = submit_one(store), submit_one(store)

    windlass("enqueue", "mail", "to=ann", "--priority", "9", "--after", str(kept), "--keep-prerequisites")
    windlass("enqueue", "mail", "to=ann", "--priority", "9", "--after", str(raised))

    assert [task_of(store, id).priority for id in (kept, raised)] == [0, 9]


def test_a_task_waits_for_another_by_its_id(windlass: Callable[..., Result], store: Store) -> None:
    prerequisite = submit_one(store)

    receipt = read(windlass("enqueue", "mail", "to=ann", "--after", str(prerequisite), "--json"))

    assert receipt["state"] == "waiting"


def test_tasks_are_cancelled_and_retried(windlass: Callable[..., Result], store: Store) -> None:
    first, second = submit_one(store, queue="a"), submit_one(store, queue="b")

    cancelled = windlass("tasks", "cancel", str(first))
    by_filter = read(windlass("tasks", "cancel", "--queue", "b", "--yes", "--json"))
    retried = read(windlass("tasks", "retry", "--state", "cancelled", "--yes", "--json"))

    assert (cancelled.exit_code, cancelled.stdout) == (0, "Cancelled 1 task.\n")
    assert by_filter == {"done": 1, "total": 1}
    assert retried == {"done": 2, "total": 2}
    assert [task.state for task in store.get([first, second]) if task] == [State.RUNNABLE] * 2


def test_the_exit_status_of_why_shows_whether_a_task_waits(windlass: Callable[..., Result], store: Store) -> None:
    id = str(submit_one(store, handler="mail"))
    stuck = windlass("why", id)
    later = windlass("why", str(submit_one(store, handler="mail", delay=HOUR)))
    session = a_session(store)
    ready = windlass("why", id)
    claim = claim_one(store, session)
    runs = windlass("why", id)
    report(store, claim, GAVE_UP)
    failed = windlass("why", id, "--json")

    statuses = [each.exit_code for each in (stuck, later, ready, runs, failed)]

    assert statuses == [4, 3, 0, 0, 4]
    assert "no node is alive" in stuck.stdout
    assert json.loads(failed.stdout)["state"] == "failed"


def test_why_succeeds_for_a_completed_task(windlass: Callable[..., Result], store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    complete(store, claim)

    assert windlass("why", str(id)).exit_code == 0


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["tasks", "show", "nonsense"], 2, "id='nonsense'"),
        (["tasks", "show", UNKNOWN], 4, UNKNOWN),
        (["why", UNKNOWN], 4, UNKNOWN),
        (["tasks", "cancel"], 2, "--queue"),
        (["tasks", "ls", "--state", "odd"], 2, "--state"),
        (["tasks", "ls", "--limit", "0"], 2, "--limit"),
        (["enqueue", "post"], 2, "handler='post'"),
        (["enqueue", "mail"], 2, "Missing: to"),
        (["enqueue", "mail", "to=ann", "cc=bob"], 2, "Unknown: cc"),
        (["enqueue", "mail", "to"], 2, "'to'"),
        (["enqueue", "mail", "to:={"], 2, "argument to is not JSON"),
        (["enqueue", "mail", "@missing.json"], 2, "@missing.json"),
        (["enqueue", "mail", "to=ann", "--in", "soon"], 2, "delay"),
        (["enqueue", "mail", "to=ann", "--timeout", "-1s"], 2, "timeout"),
        (["enqueue", "mail", "to=ann", "--after", UNKNOWN], 2, UNKNOWN),
        (["enqueue", "mail", "to=ann", "--at-most-once", "--retries", "3"], 2, "retries=3 and at_most_once=True"),
        (["enqueue", "mail", "to=ann", "--limit-key", "{cc}", "--max-running", "1"], 2, "pass the argument cc"),
        (["enqueue", "mail", "to=ann", "--max-running", "1"], 2, "need a key"),
        (["enqueue", "mail", "to=ann", "--admit", "strict"], 2, "needs a deadline"),
        (["enqueue", "mail", "to=ann", "--admit", "strict", "--deadline", "9s"], 6, "no worker serves it"),
        (["enqueue", "mail", "to=ann", "--limit-key", "k", "--max-rate", "fast"], 2, "rate='fast'"),
        (["enqueue", "mail", "to=ann", "--wait", "--wait-timeout", "0.05s"], 7, "did not finish"),
        (["worker"], 2, "no app"),
        (["worker", "a:b", "--pool", "=3"], 2, "--pool"),
        (["worker", "a:b", "-t", "0"], 2, "threads=0"),
        (["worker", "a:b", "--session-ttl", "soon"], 2, "session_ttl"),
        (["worker", "a:b", "--drain-timeout", "soon"], 2, "drain_timeout"),
    ],
)
def test_bad_input_is_refused_naming_the_field(
    windlass: Callable[..., Result], words: Sequence[str], status: int, named: str
) -> None:
    result = windlass(*words)

    assert (result.exit_code, named in result.stderr) == (status, True), result.output
    assert "Traceback" not in result.output


def test_an_unreachable_store_has_its_own_exit_status() -> None:
    result = CliRunner().invoke(main, ["tasks", "ls", "--store", "postgresql://nobody@127.0.0.1:1/none"])

    assert result.exit_code == 8
    assert "Traceback" not in result.output


def test_the_command_runs_as_a_process(url: str, store: Store) -> None:
    command = [sys.executable, "-m", "windlass", "enqueue", "mail", "to=ann", "--json", "--store", url]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "runnable"
