"""All commands follow the same conventions: options, help and JSON."""

from __future__ import annotations

import re

import click
import pytest

from tests.cli.tree import COMMANDS, EVERYTHING, options_of
from windlass.cli.main import COMMANDS as LINES

CHANGES = {
    "tasks edit",
    "tasks cancel",
    "tasks retry",
    "tasks purge",
    "queues pause",
    "queues resume",
    "queues set",
    "queues rm",
    "tenants weight",
    "tenants limit",
    "tenants pause",
    "tenants resume",
    "limits set",
    "limits rm",
    "workflows retry",
    "workflows signal",
    "workflows cancel",
    "dead retry",
    "dead edit",
    "dead drop",
    "cron create",
    "cron set",
    "cron run",
    "cron pause",
    "cron resume",
    "cron rm",
    "pool set",
    "pool freeze",
    "pool pause",
    "pool resume",
    "pool tune",
    "breaker open",
    "breaker close",
    "breaker rm",
    "workers drain",
    "workers stop",
    "token create",
    "token revoke",
    "db raise-epoch",
    "audit undo",
}
"""Commands that change the store for a person. Each writes an audit entry."""
READS = {
    "tasks ls",
    "tasks show",
    "tasks logs",
    "tasks wait",
    "why",
    "repro",
    "queues ls",
    "queues series",
    "tenants ls",
    "tenants show",
    "limits ls",
    "workers ls",
    "workflows ls",
    "workflows show",
    "workflows graph",
    "workflows gantt",
    "dead ls",
    "dead show",
    "cron ls",
    "cron show",
    "cron next",
    "cron lint",
    "pool show",
    "pool history",
    "pool desired",
    "pool simulate",
    "breaker ls",
    "token ls",
    "db status",
    "db check",
    "doctor",
    "config show",
    "audit ls",
}
NOT_AUDITED = {"enqueue", "submit", "db migrate", "db copy"}
"""Commands that write what is not audited: submits, as in the API, and databases that do not exist or are empty."""
NO_DATA = {
    "worker",
    "up",
    "top",
    "server",
    "openapi",
    "deploy grafana",
    "deploy alerts",
    "deploy systemd",
    "deploy role",
    "deploy roles",
    "deploy compose",
    "deploy keda",
    "deploy helm",
    "completion",
    "init",
    "demo",
    "db backup",
}
"""Commands that run until they are stopped, or write files."""
BULK = {"tasks cancel", "tasks retry", "tasks purge", "workflows retry", "workflows cancel", "dead retry", "dead drop"}

VERBS = {
    "Cancel",
    "Change",
    "Check",
    "Close",
    "Copy",
    "Create",
    "Delete",
    "Drain",
    "Draw",
    "End",
    "Explain",
    "Hold",
    "Invalidate",
    "Keep",
    "List",
    "Manage",
    "Pause",
    "Print",
    "Remove",
    "Resume",
    "Retry",
    "Revoke",
    "Run",
    "Serve",
    "Set",
    "Show",
    "Simulate",
    "Stop",
    "Submit",
    "Undo",
    "Wait",
    "Watch",
    "Write",
}


def test_every_command_has_one_kind() -> None:
    kinds = [CHANGES, READS, NOT_AUDITED, NO_DATA]

    assert set.union(*kinds) == COMMANDS.keys()
    assert sum(map(len, kinds)) == len(COMMANDS)


@pytest.mark.parametrize("words", sorted(CHANGES))
def test_every_change_takes_an_author_and_a_reason(words: str) -> None:
    assert {"--why", "--by"} <= options_of(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(READS | NOT_AUDITED))
def test_only_changes_take_a_reason(words: str) -> None:
    assert options_of(COMMANDS[words]).isdisjoint({"--why", "--by", "--reason"})


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - NO_DATA))
def test_every_command_with_data_prints_json(words: str) -> None:
    assert {"--json", "--jsonl"} <= options_of(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(BULK))
def test_every_change_of_many_tasks_asks_first(words: str) -> None:
    assert {"--yes", "--dry-run"} <= options_of(COMMANDS[words])


def test_no_option_has_two_meanings() -> None:
    meanings: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            if isinstance(option, click.Option):
                text = re.sub(r"\s*\[.*\]$", "", option.help or "")
                for name in option.opts:
                    meanings.setdefault(name, set()).add(text)

    assert {name: texts for name, texts in meanings.items() if len(texts) > 1} == {}
    assert [name for name, texts in meanings.items() if "" in texts] == []


@pytest.mark.parametrize("words", sorted(EVERYTHING))
def test_help_starts_with_one_imperative_line(words: str) -> None:
    first, _, _ = (EVERYTHING[words].help or "").partition("\n\n")

    assert re.fullmatch(r"[A-Z][^\n]{5,98}\.", first), first
    assert first.split()[0].strip(",:") in VERBS


def test_the_list_of_commands_repeats_their_help() -> None:
    first_lines = {name: (EVERYTHING[name].help or "").partition("\n")[0] for name in LINES}

    assert {name: line for name, (_, line) in LINES.items()} == first_lines
