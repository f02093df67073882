"""No text of a task, a queue or an audit entry can control the terminal or the log."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Windlass, read
from tests.support.builders import claim_one, decided
from tests.support.processes import ROOT
from windlass.cli import output
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.retry import Error
from windlass.core.settlement import Raised
from windlass.core.task import NewTask, Progress, TaskId
from windlass.events import WorkerParentFailed
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store
from windlass.worker import logs
from windlass.worker.log_format import JsonLines, TerminalLines

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202eabc"
"""It sets the title, clears the screen, returns to the start of the line, colors, and reverses text."""
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def task(store: Store) -> TaskId:
    """A failed task, every text of which is hostile."""
    new = NewTask(handler="mail", args={"to": EVIL}, workflow="w")
    [receipt] = store.submit([new])
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.5, message=EVIL)])
    error = Error(kind=f"E{EVIL}", message=f"first\n{EVIL}", traceback=f"File {EVIL}\n  {EVIL}")
    settlement = decided(claim, Raised(error, give_up=True))
    store.settle([(claim.lease, type(settlement)(**{**_fields(settlement), "log": f"line\n{EVIL}"}))])
    store.configure(Queue(name="mail", paused=True, paused_by="ann", paused_why=EVIL))
    set_by = SetBy(by=EVIL, why=EVIL)
    limit = Limit(tenant="default", max_running=1, set_by=set_by)
    store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    tenant = Tenant(weight=2, weight_set_by=set_by, paused=set_by)
    store.put_control(TENANT, "default", encode_tenant(tenant), expect=0)
    store.note([Entry(subject="task/1", action="did", text=EVIL, by=EVIL)])
    return receipt.id


def _fields(settlement: object) -> dict[str, object]:
    return {name: getattr(settlement, name) for name in type(settlement).__struct_fields__}  # type: ignore[attr-defined]


COMMANDS = {
    "tasks show": ["tasks", "show", "ID"],
    "tasks logs": ["tasks", "logs", "ID"],
    "tasks ls": ["tasks", "ls"],
    "why": ["why", "ID"],
    "dead ls": ["dead", "ls"],
    "queues ls": ["queues", "ls"],
    "tenants ls": ["tenants", "ls"],
    "tenants show": ["tenants", "show", "default"],
    "limits ls": ["limits", "ls"],
    "audit ls": ["audit", "ls"],
    "workflows ls": ["workflows", "ls"],
    "tasks wait": ["tasks", "wait", "ID"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_command_prints_control_characters(windlass: Windlass, task: TaskId, words: list[str]) -> None:
    result = windlass(*[str(task) if word == "ID" else word for word in words])

    assert result.exit_code in (0, 1, 4), result.output
    assert result.stdout
    assert not HARMFUL.findall(result.stdout + result.stderr)


def test_a_group_of_failed_tasks_is_shown_without_control_characters(windlass: Windlass, task: TaskId) -> None:
    [group] = read(windlass("dead", "ls", "--json"))

    result = windlass("dead", "show", group["group"])

    assert "\\x1b[2J" in result.stdout
    assert not HARMFUL.findall(result.stdout)


def test_an_error_message_with_control_characters_is_escaped(windlass: Windlass, store: Store) -> None:
    result = windlass("tasks", "show", f"x{EVIL}")

    assert result.exit_code != 0
    assert not HARMFUL.findall(result.stdout + result.stderr)


def test_json_keeps_its_value_and_has_no_control_characters(windlass: Windlass, task: TaskId) -> None:
    result = windlass("tasks", "show", str(task), "--json")

    assert not HARMFUL.findall(result.stdout)
    assert json.loads(result.stdout)["args"]["to"] == EVIL


def test_a_text_cannot_continue_on_a_line_that_looks_like_ours(windlass: Windlass, store: Store) -> None:
    [receipt] = store.submit([NewTask(handler="mail")])
    claim = claim_one(store)
    store.settle([(claim.lease, decided(claim, Raised(Error(kind="a\n  result     forged"), give_up=True)))])

    shown = windlass("tasks", "show", str(receipt.id)).stdout

    assert "a\\n  result" in shown
    assert not any(line.startswith("  result") for line in shown.splitlines())


def test_colors_of_ours_work_and_those_of_a_task_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "has_color", lambda: True)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)

    output.echo(output.style(f"ours {click.style('theirs', fg='red')}", fg="green"))

    assert capsys.readouterr().out == "\x1b[32mours \\x1b[31mtheirs\\x1b[0m\x1b[0m\n"


def test_the_log_of_a_node_has_no_control_characters() -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logs.logger.addHandler(handler)
    try:
        logs.log_event(WorkerParentFailed(why=EVIL))
        logs.log_event(WorkerParentFailed(why=f"two words\n{EVIL}"))
    finally:
        logs.logger.removeHandler(handler)

    assert len(records) == 2
    for record in records:
        assert not HARMFUL.findall(TerminalLines(color=False).format(record))
        line = JsonLines().format(record)
        assert not HARMFUL.findall(line)
        assert EVIL in json.loads(line)["why"]


PRINTS_NO_DATA = {"completion", "deploy", "init", "logs", "output", "server", "simulate", "token", "up", "worker"}
"""Modules that print settings, generated files and our own numbers only."""


def test_commands_print_through_one_function() -> None:
    files = sorted((Path(ROOT) / "src" / "windlass" / "cli").glob("*.py"))

    direct = {file.stem for file in files if "click.echo(" in file.read_text()}

    assert direct <= PRINTS_NO_DATA
