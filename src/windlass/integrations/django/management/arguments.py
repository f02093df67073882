"""Separate the options that every command of Django has from those of a Windlass command."""

# Django has no types.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from django.core.management.base import BaseCommand, CommandError, handle_default_options


class PassThroughCommand(BaseCommand):
    """A command whose arguments are parsed by Windlass, apart from those of every Django command."""

    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run `manage.py NAME ARGUMENTS`."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for flag in ("--settings", "--pythonpath"):
            parser.add_argument(flag)
        for flag in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
            parser.add_argument(flag, action="store_true")
        options, rest = parser.parse_known_args(argv[2:])
        handle_default_options(options)
        if options.no_color:
            os.environ["NO_COLOR"] = "1"
        self.run_windlass(rest)

    def run_windlass(self, arguments: Sequence[str]) -> None:
        """Run the command with the arguments that are not Django's."""
        raise NotImplementedError

    def handle(self, *args: object, **options: object) -> None:
        name = type(self).__module__.rpartition(".")[2]
        raise CommandError(f"{name} ends its process, so call_command() cannot run it. Use `manage.py {name}`.")


def project_path() -> str:
    """Return `$PYTHONPATH` for programs that import the project as this one does."""
    own = [entry for entry in sys.path if entry and not entry.startswith((sys.prefix, sys.base_prefix))]
    return os.pathsep.join(dict.fromkeys([*own, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])).strip(os.pathsep)
