"""The command `windlass`. A subcommand's module is imported when it is called, so `--help` stays quick.

Results go to standard output, talk to standard error. Exit statuses: 0 done, 1 a task failed, 2 the command line
is wrong, and what `EXITS` says for our own errors.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from windlass.errors import WindlassError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "worker": ("windlass.cli.worker:worker", "Run tasks: a node with its pools of workers."),
    "up": ("windlass.cli.up:command", "Run tasks and serve the HTTP API, in one process."),
    "enqueue": ("windlass.cli.enqueue:enqueue", "Submit one task."),
    "submit": ("windlass.cli.submit:submit", "Submit many tasks, one JSON object a line."),
    "tasks": ("windlass.cli.tasks:tasks", "Look at tasks, wait for them, change, cancel, retry and purge them."),
    "why": ("windlass.cli.why:why", "Say why a task is not running."),
    "repro": ("windlass.cli.repro:repro", "Run a task's handler here, as it ran, and write nothing back."),
    "queues": ("windlass.cli.queues:queues", "See what waits where, pause and resume queues, change their settings."),
    "tenants": ("windlass.cli.tenants:tenants", "See on whose behalf tasks are there."),
    "workers": ("windlass.cli.workers:workers", "See which nodes are alive, and what their pools have."),
    "workflows": (
        "windlass.cli.workflows:workflows",
        "See steps, graph and times of workflows, retry from a step.",
    ),
    "dead": ("windlass.cli.dead:dead", "See failed tasks by bug, retry them with care, edit or drop them."),
    "cron": ("windlass.cli.cron:cron", "See when schedules run, run one now, pause and resume them."),
    "pool": ("windlass.cli.pool:pool", "See why a pool has its size, overrule it, try other rules."),
    "breaker": (
        "windlass.cli.breaker:breaker",
        "See the circuit breakers of downstreams, hold them open or closed.",
    ),
    "top": ("windlass.cli.top:top", "Watch and steer it in the terminal: live pages."),
    "server": ("windlass.cli.server:server", "Serve the HTTP API."),
    "openapi": ("windlass.cli.server:openapi", "Print the OpenAPI document of the HTTP API."),
    "token": ("windlass.cli.token:token", "Make, list and revoke what opens the HTTP API."),
    "db": ("windlass.cli.db:db", "Look after the database: status, migrations, checks, backup, copy."),
    "doctor": ("windlass.cli.doctor:doctor", "Find what may be wrong with the store, and what to do about it."),
    "config": ("windlass.cli.config:config", "See every setting, and where it comes from."),
    "audit": ("windlass.cli.audit:audit", "See what people and the autoscaler did or decided."),
    "deploy": ("windlass.cli.deploy:deploy", "Print units, manifests, a dashboard and alert rules."),
    "completion": ("windlass.cli.completion:completion", "Let the shell complete commands and names."),
    "init": ("windlass.cli.init:init", "Begin an app of your own: one file, one test."),
    "demo": ("windlass.cli.demo:demo", "See the engine at work on a small shop."),
}

EXITS: Mapping[str, int] = {
    "invalid_settings": 2,
    "invalid_task": 2,
    "invalid_payload": 2,
    "invalid_load": 2,
    "invalid_filter": 2,
    "duplicate_task": 2,
    "unknown_prerequisite": 2,
    "unknown_handler": 2,
    "cycle": 2,
    "app_broken": 3,
    "unknown_task": 4,
    "unknown_pool": 4,
    "unknown_cron": 4,
    "unknown_group": 4,
    "unknown_workflow": 4,
    "not_allowed": 5,
    "queue_full": 6,
    "key_conflict": 6,
    "changed_meanwhile": 6,
    "version_conflict": 6,
    "still_unfinished": 7,
    "store_unavailable": 8,
    "node_failed": 9,
}
"""Exit statuses by the code of the error; 1 for the others."""


class Lazy(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WindlassError as error:
            click.echo(f"windlass: {error}", err=True)
            ctx.exit(EXITS.get(error.code, 1))


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="windlass")
def main() -> None:
    """Windlass: a durable task scheduler with a worker pool that sizes itself."""
