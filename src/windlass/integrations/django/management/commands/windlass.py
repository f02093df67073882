"""`manage.py windlass COMMAND`: run any command of `windlass` on the store of the project."""

from __future__ import annotations

import os
from collections.abc import Sequence

from windlass.integrations.django.management.arguments import PassThroughCommand
from windlass.integrations.django.settings import app_url
from windlass.store_choice import ENVIRONMENT


class StoreCommand(PassThroughCommand):
    """Runs the command line with the store of the project."""

    help = "Run a command of `windlass` on the store of this project, such as `manage.py windlass tasks ls`."

    def run_windlass(self, arguments: Sequence[str]) -> None:
        from windlass.cli.main import main

        url = app_url()
        if url is not None:
            os.environ[ENVIRONMENT] = url
        main(list(arguments), prog_name="manage.py windlass")


Command = StoreCommand
