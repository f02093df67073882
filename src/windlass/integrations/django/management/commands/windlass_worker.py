"""`manage.py windlass_worker`: run the tasks of the project. The options are those of `windlass worker`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from windlass.config import read_settings
from windlass.integrations.django.management.arguments import PassThroughCommand, project_path

APP_PATH = "windlass.integrations.django.worker:app"


class WorkerCommand(PassThroughCommand):
    """Replaces this process by `windlass worker`, so that the node, as always, does not run code of the project."""

    help = "Run the tasks of this project. The options are those of `windlass worker`."

    def run_windlass(self, arguments: Sequence[str]) -> None:
        if "--help" in arguments:
            show_help()
        os.environ["PYTHONPATH"] = project_path()
        defaults = [*default_queues(arguments), *default_folders(arguments)]
        command = [sys.executable, "-m", "windlass", "worker", APP_PATH, *defaults, *arguments]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, command)


Command = WorkerCommand


def show_help() -> None:
    """Print the options of `windlass worker`, without its argument, and exit."""
    import click

    from windlass.cli.worker import worker

    options: list[click.Parameter] = [option for option in worker.params if isinstance(option, click.Option)]
    click.Command("windlass_worker", params=options, help=WorkerCommand.help).main(
        ["--help"], prog_name="manage.py windlass_worker"
    )


def default_queues(arguments: Sequence[str]) -> list[str]:
    """Return the option for the queues of the `TASKS` backends, unless the arguments or windlass.yaml name queues."""
    from windlass.integrations.django.tasks_api import find_queues

    named = any(word.startswith(("-Q", "--queues", "-p", "--pool", "--config")) for word in arguments)
    queues = find_queues()
    if named or queues <= {"default"} or read_settings().pools:
        return []
    return ["-Q", ",".join(sorted(queues | {"default"}))]


def default_folders(arguments: Sequence[str]) -> list[str]:
    """Return the option that makes --reload watch the folder of manage.py, which need not be the current one."""
    return ["--reload-dir", str(Path(sys.argv[0]).resolve().parent)] if "--reload" in arguments else []
