"""`--json` of every command prints the shape of the HTTP API, or a shape of its own in `windlass.wire`.

The schemas are strict: a field that the OpenAPI document does not have fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw
import jsonschema_rs
import msgspec
import pytest

from tests.cli.conftest import Windlass, read
from tests.cli.tree import COMMANDS, options_of
from tests.support.builders import GAVE_UP, HOUR, a_session, a_task, claim_one, report, submit_one
from tests.support.json_output import without_store
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.cli import replay
from windlass.clock import ManualClock
from windlass.core.breaker import BreakerState
from windlass.core.fairness import SetBy
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.settlement import Settlement
from windlass.core.task import Progress, Rate
from windlass.core.worker_list import RunningTask, WorkerList, WorkerProcess, encode_workers
from windlass.operations import breakers, crons, dead_letters, pools, tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.operations.clock_changes import ClockChange
from windlass.server.http.openapi import document
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store
from windlass.wire import commands
from windlass.wire.audit import EntryShape
from windlass.wire.tasks import LineReceipt, TaskDetailsShape, TaskShape
from windlass.wire.tokens import TokenShape
from windlass.wire.workflows import RetriedWorkflow

API = "/api/v1"
DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(TABLE)))
AUTHOR = Author("ann", "a test")

CASES: list[tuple[str, str, Any]] = [
    # command, arguments, an operation of the API or a type of `windlass.wire`
    ("enqueue", "mail to=ann", "POST /tasks"),
    ("enqueue", "mail to=ann --key done --tenant acme --queue default --wait", TaskShape),
    ("repro", "{failed} repro_app:app", commands.ReproResult),
    ("repro", "{done} repro_app:app", commands.ReproResult),
    ("submit", "{file}", commands.SubmitCounts),
    ("tasks ls", "", "GET /tasks"),
    ("tasks show", "{failed}", TaskDetailsShape),
    ("tasks logs", "{done}", "GET /tasks/{id}/logs"),
    ("tasks wait", "{failed} {done}", list[TaskShape]),
    ("tasks edit", "{open} --priority 3", "PATCH /tasks/{id}"),
    ("tasks cancel", "queue:mail --yes", "POST /tasks:cancel"),
    ("tasks cancel", "queue:mail --dry-run", "POST /tasks:cancel"),
    ("tasks retry", "{failed}", "POST /tasks:retry"),
    ("tasks purge", "{done}", "POST /tasks:purge"),
    ("why", "{open}", "GET /tasks/{id}/why"),
    ("why", "{failed}", "GET /tasks/{id}/why"),
    ("queues ls", "", "GET /queues"),
    ("queues series", "mail --every second", "GET /queues/{name}/series"),
    ("queues series", "", "GET /queues:series"),
    ("queues pause", "mail --why import", "POST /queues/{name}/pause"),
    ("queues resume", "bulk", "POST /queues/{name}/resume"),
    ("queues set", "mail --max-waiting 9", "PUT /queues/{name}"),
    ("queues rm", "bulk", "POST /queues/{name}/remove"),
    ("tenants ls", "", "GET /tenants"),
    ("tenants show", "acme", "GET /tenants/{name}"),
    ("tenants weight", "acme 3 --for 1h", "PUT /tenants/{name}/weight"),
    ("tenants limit", "acme --max-running 3", "PUT /limits"),
    ("tenants pause", "acme --why noisy", "POST /tenants/{name}/pause"),
    ("tenants resume", "acme", "POST /tenants/{name}/resume"),
    ("limits ls", "", "GET /limits"),
    ("limits set", "--limit-key customer:7 --max-rate 5/s --for 1h", "PUT /limits"),
    ("limits rm", "--queue bulk", "POST /limits:remove"),
    ("workers ls", "--all", "GET /nodes"),
    ("workers drain", "box-1 1 --why leaks", "POST /nodes/{session}/workers/{number}/drain"),
    ("workers stop", "box-1 1", "POST /nodes/{session}/workers/{number}/stop"),
    ("workers drain", "box-1 --whole-node", "POST /nodes/{session}/drain"),
    ("workers stop", "box-1 --whole-node --grace 1m", "POST /nodes/{session}/stop"),
    ("workflows ls", "", "GET /workflows"),
    ("workflows show", "w", "GET /workflows/{name}"),
    ("workflows graph", "w", "GET /workflows/{name}"),
    ("workflows gantt", "w", "GET /workflows/{name}"),
    ("workflows cancel", "w --yes", "POST /tasks:cancel"),
    ("workflows signal", "w approved --data 1", "POST /workflows/{name}/events/{event}"),
    ("workflows retry", "w --from first --yes", RetriedWorkflow),
    ("workflows retry", "w --from first --dry-run", RetriedWorkflow),
    ("dead ls", "", "GET /dead"),
    ("dead show", "{group}", "GET /dead/{group}"),
    ("dead retry", "{group} --yes", "POST /dead/{group}/retry"),
    ("dead retry", "{group} --dry-run", "POST /dead/{group}/retry"),
    ("dead retry", "{group} --yes --canary --patience 0s", "POST /dead/{group}/retry"),
    ("dead edit", "{failed} to=bob", "POST /tasks/{id}/edit-and-retry"),
    ("dead drop", "{group} --yes", "POST /dead/{group}/drop"),
    ("cron ls", "", "GET /crons"),
    ("cron show", "nightly", "GET /crons/{name}"),
    ("cron create", "weekly @weekly mail to=ann", "POST /crons"),
    ("cron set", "monthly --tz Europe/Berlin", "PATCH /crons/{name}"),
    ("cron next", "nightly", "GET /crons/{name}/next"),
    ("cron run", "nightly", "POST /tasks"),
    ("cron pause", "nightly --why import", "POST /crons/{name}/pause"),
    ("cron resume", "nightly", "POST /crons/{name}/resume"),
    ("cron rm", "nightly", "POST /crons/{name}/remove"),
    ("cron lint", "nightly", list[ClockChange]),
    ("pool show", "", "GET /pools"),
    ("pool show", "mail", "GET /pools/{name}"),
    ("pool set", "mail 4 --why sale", "POST /pools/{name}/override"),
    ("pool freeze", "mail", "POST /pools/{name}/freeze"),
    ("pool pause", "mail", "POST /pools/{name}/pause"),
    ("pool resume", "mail", "POST /pools/{name}/resume"),
    ("pool tune", "mail wait=2s", "PUT /pools/{name}/settings"),
    ("pool history", "mail", "GET /pools/{name}/history"),
    ("pool desired", "mail", "GET /pools/{name}/desired"),
    ("pool simulate", "step --seconds 60", commands.Simulation),
    ("breaker ls", "", "GET /breakers"),
    ("breaker open", "bank --for 10m", "POST /breakers/{name}/open"),
    ("breaker close", "bank", "POST /breakers/{name}/close"),
    ("breaker rm", "bank", "POST /breakers/{name}/remove"),
    ("token create", "ci --scope read", commands.NewToken),
    ("token ls", "", list[TokenShape]),
    ("token revoke", "old", TokenShape),
    ("db status", "", commands.DatabaseStatus),
    ("db migrate", "", commands.Migration),
    ("db check", "", list[commands.DatabaseFinding]),
    ("db raise-epoch", "--yes", commands.Epoch),
    ("db copy", "{copy} --yes --live", commands.CopiedRows),
    ("doctor", "", list[commands.CheckResult]),
    ("config show", "", list[commands.Setting]),
    ("audit ls", "", "GET /audit"),
    ("audit undo", "{entry}", list[EntryShape]),
]
LINES: Mapping[str, Any] = {
    "submit": LineReceipt,
    "tasks ls": TaskShape,
    "audit ls": "EntryShape",
    "pool history": "EntryShape",
    "workflows ls": "WorkflowRow",
    "workflows show": "StepShape",
    "workflows graph": "StepShape",
    "workflows gantt": "StepShape",
    "cron next": str,
    "pool simulate": "SimulationResult",
}
"""What a line of `--jsonl` is, where that is neither the document itself nor an item of its list."""
STORELESS = ("repro", "config show", "pool simulate", "cron lint")
"""Commands whose document names no store."""
REPRO_APP = """
import windlass

app = windlass.App()

@app.task(name="mail")
def mail(to: str, copies: int = 1) -> dict[str, int]:
    if windlass.current().tenant != "acme":
        raise ValueError(to)
    return {"sent": copies}
"""


@pytest.fixture
def names(
    store: Store, clock: ManualClock, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Fill the store with something of everything, and return the names that the commands use."""
    access = Access(store, clock=clock)
    store.configure(Queue(name="default", fair=True))
    limit = Limit(queue="bulk", max_running=2, rate=Rate(5, HOUR), set_by=SetBy(by="ann", why="import"))
    store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    session = a_session(store, "box-1", about='{"pools": {"mail": {"queues": ["mail"]}}}')
    failed = submit_one(store, handler="mail", args={"to": "ann"}, deadline=None)
    report(store, claim_one(store, session), GAVE_UP)
    done = submit_one(store, handler="mail", args={"to": "ann"}, tenant="acme", key="done")
    claim = claim_one(store, session)
    store.progress([Progress(lease=claim.lease, share=0.5, message="half")])
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, result='{"sent": 1}', log="hello\n"))])
    store.submit([a_task(key="first", workflow="w"), a_task(key="second", workflow="w", prerequisites=["first"])])
    report(store, claim_one(store, session), GAVE_UP)
    store.sweep()
    waiting = submit_one(store, handler="mail", queue="mail", args={"to": "ann"})
    store.configure(Queue(name="bulk", paused=True, paused_by="ann", paused_why="import"))
    pool = PoolReport(queues=("mail",), target=3, ready=2, running=1, min=1, max=8, override_max=8, deaths=1)
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": pool})).decode())
    task = RunningTask(id=str(waiting), handler="mail", since=clock.now())
    worker = WorkerProcess(number=1, pool="mail", state="busy", since=clock.now(), pid=7, running=1, tasks=(task,))
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    store.close_session(a_session(store, "box-2"))
    pools.set_size(access, "mail", 2, 6, author=AUTHOR)
    pools.pause(access, "mail", author=AUTHOR)
    entry = store.audit(limit=1)[0].number
    breakers.hold(access, "bank", BreakerState.OPEN, author=AUTHOR, lasts="1h", create=True)
    crons.create(access, crons.NewCron(name="monthly", handler="mail", schedule="@monthly", args={"to": "a"}), AUTHOR)
    tokens.create(access, "old", [Scope.READ], AUTHOR, tenant="acme")
    group = next(each for each in dead_letters.get_all(access) if failed in each.newest)
    file = tmp_path / "tasks.ndjson"
    file.write_text('{"handler": "mail", "args": {"to": "ann"}}\n')
    (tmp_path / "repro_app.py").write_text(REPRO_APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(replay, "bind_all", lambda _: None)  # It would bind the apps of other tests, too.
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    return {"failed": str(failed), "done": str(done), "open": str(waiting), "group": group.id} | {
        "file": str(file),
        "copy": copy,
        "entry": str(entry),
    }


def test_every_command_with_json_has_a_shape() -> None:
    with_json = {words for words, command in COMMANDS.items() if "--json" in options_of(command)}

    assert {words for words, _, _ in CASES} == with_json


@pytest.mark.parametrize(("command", "arguments", "shape"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_json_has_the_shape_of_the_api(
    windlass: Windlass, url: str, names: dict[str, str], command: str, arguments: str, shape: Any
) -> None:
    if command == "db check":
        damage(url)

    result = windlass(*command.split(), *arguments.format(**names).split(), "--json")

    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    document = json.loads(result.stdout)
    assert command in STORELESS or document["store"] == url
    found = without_store(document)
    assert found != [], "an empty list proves nothing"
    validate(found, schema_of(shape))


@pytest.mark.parametrize(("command", "arguments", "shape"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_each_line_of_jsonl_has_the_shape_of_an_item(
    windlass: Windlass, url: str, names: dict[str, str], command: str, arguments: str, shape: Any
) -> None:
    if command == "db check":
        damage(url)

    result = windlass(*command.split(), *arguments.format(**names).split(), "--jsonl")

    schema = schema_of(LINES.get(command, shape))
    item = schema.get("items", schema) | {"components": schema["components"]}
    lines = result.stdout.splitlines()
    assert lines, "no line proves nothing"
    for line in lines:
        validate(json.loads(line), item)


@pytest.mark.parametrize("extra", [{"surprise": 1}, {"name": 7}])
def test_a_document_with_another_field_does_not_validate(windlass: Windlass, extra: dict[str, object]) -> None:
    windlass("queues", "set", "mail", "--max-waiting", "9")
    [queue] = read(windlass("queues", "ls", "--json"))

    with pytest.raises(jsonschema_rs.ValidationError):
        validate([queue | extra], schema_of("GET /queues"))


def damage(url: str) -> None:
    """Make the counters of the database wrong, so that `db check` finds something."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.execute("INSERT INTO count_delta (queue, tenant, state, tasks) VALUES ('q', 't', 'runnable', 3)")
    connection.close()


def schema_of(shape: Any) -> dict[str, Any]:
    """Return the schema of an operation's response, of a component of the document, or of a type."""
    if not isinstance(shape, str):
        [schema], components = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
        return schema | {"components": {"schemas": components}}
    if " " not in shape:
        return {"$ref": f"#/components/schemas/{shape}", "components": DOCUMENT["components"]}
    method, path = shape.split()
    responses = DOCUMENT["paths"][API + path][method.lower()]["responses"]
    content = next(responses[status]["content"] for status in ("200", "201") if status in responses)
    schema = content["application/json"]["schema"]
    return schema | {"components": DOCUMENT["components"]}


def validate(value: Any, schema: Mapping[str, Any]) -> None:
    """Validate a value and allow no field that the schema does not have."""
    jsonschema_rs.validator_for(close(schema)).validate(value)


def close(schema: Any) -> Any:
    """Return a schema whose objects allow no other fields."""
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(member) for name, member in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
