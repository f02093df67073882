"""The command `windlass`. The module of a subcommand is imported when it is called, so that `--help` is fast.

Results go to standard output, messages to standard error. Exit statuses: 0 done, 1 a task failed, 2 the command line
is wrong, and those of `EXITS` for our own errors.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from windlass.errors import WindlassError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "worker": ("windlass.cli.worker:worker", "Run tasks: a node with its pools of workers."),
    "up": ("windlass.cli.up:command", "Run tasks and serve the dashboard and the HTTP API in one process."),
    "enqueue": ("windlass.cli.enqueue:enqueue", "Submit one task."),
    "submit": ("windlass.cli.submit:submit", "Submit many tasks, one JSON object per line."),
    "tasks": ("windlass.cli.tasks:tasks", "List, show, wait for, change, cancel, retry and purge tasks."),
    "why": ("windlass.cli.why:why", "Explain why a task is not running."),
    "repro": ("windlass.cli.repro:repro", "Run the handler of a task in this process with the same arguments."),
    "queues": ("windlass.cli.queues:queues", "List, pause, resume and configure queues."),
    "tenants": (
        "windlass.cli.tenants:tenants",
        "Show tenants and their shares, and change weights, limits and pauses.",
    ),
    "limits": ("windlass.cli.limits:limits", "List, set and remove limits on queues, tenants, handlers and keys."),
    "workers": ("windlass.cli.workers:workers", "List nodes and worker processes, drain and stop them."),
    "workflows": (
        "windlass.cli.workflows:workflows",
        "List, show, draw, cancel and retry workflows; set their events.",
    ),
    "dead": ("windlass.cli.dead:dead", "List failed tasks by bug, retry, edit and drop them."),
    "cron": ("windlass.cli.cron:cron", "List, create, change, run, pause, resume and check crons."),
    "pool": ("windlass.cli.pool:pool", "Show pools, override their size, change their settings and simulate them."),
    "breaker": ("windlass.cli.breaker:breaker", "Show and control the circuit breakers of downstreams."),
    "top": ("windlass.cli.top:top", "Watch and control tasks, queues, pools and nodes in the terminal."),
    "server": ("windlass.cli.server:server", "Serve the dashboard and the HTTP API until SIGTERM or Ctrl-C."),
    "openapi": ("windlass.cli.server:openapi", "Print the OpenAPI document of the HTTP API."),
    "token": ("windlass.cli.token:token", "Manage API tokens."),
    "db": ("windlass.cli.db:db", "Show, migrate, check, back up and copy the database."),
    "doctor": ("windlass.cli.doctor:doctor", "Check versions, durability, disk, clocks, limits and long runs."),
    "config": ("windlass.cli.config:config", "Show all settings and their origin."),
    "audit": ("windlass.cli.audit:audit", "Show the audit log, and undo entries."),
    "deploy": ("windlass.cli.deploy:deploy", "Print files for deployment and monitoring."),
    "completion": ("windlass.cli.completion:completion", "Print the shell code that enables completion."),
    "init": ("windlass.cli.init:init", "Create a new app: one file with tasks, one test, and settings."),
    "demo": ("windlass.cli.demo:demo", "Run a demo shop: a rush, a bug, a killed worker and a drain."),
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
    "unknown_queue": 4,
    "unknown_tenant": 4,
    "unknown_limit": 4,
    "unknown_token": 4,
    "unknown_group": 4,
    "unknown_workflow": 4,
    "unknown_breaker": 4,
    "unknown_node": 4,
    "unknown_worker": 4,
    "unknown_entry": 4,
    "cron_exists": 5,
    "not_allowed": 5,
    "queue_full": 6,
    "deadline_unreachable": 6,
    "key_conflict": 6,
    "key_busy": 6,
    "event_conflict": 6,
    "changed_meanwhile": 6,
    "version_conflict": 6,
    "still_unfinished": 7,
    "store_unavailable": 8,
    "node_failed": 9,
}
"""The exit status of each error code; 1 for all others."""


SYNONYMS: Mapping[str, str] = {"--reason": "--why", "--author": "--by", "--user": "--by"}
"""What to suggest for options that have another name here."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

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
        except click.NoSuchOption as error:
            known = [] if error.ctx is None else [word for each in error.ctx.command.params for word in each.opts]
            word = SYNONYMS.get(error.option_name)
            if word not in known:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{word}'?", error.ctx) from None
        except WindlassError as error:
            from windlass.cli.output import echo  # After a command has run, this costs nothing.

            echo(f"windlass: {error}", err=True)
            ctx.exit(EXITS.get(error.code, 1))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="windlass-tasks")
def main() -> None:
    """Windlass: a durable task scheduler with a worker pool that sizes itself."""
