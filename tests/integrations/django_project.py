"""A Django project for tests: the folder `django_shop`, with the lines that the guide adds to its files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from tests.support.nodes import NodeProcess

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "django.md"


class DjangoProject:
    """A copy of the project in a folder, on a PostgreSQL database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")},
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "shop.settings",
        }
        shutil.copytree(Path(__file__).parent / "django_shop", folder, dirs_exist_ok=True)
        for path, text in re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE.read_text(), re.DOTALL):
            with (folder / path).open("a") as file:
                file.write(f"\n{text}")
        if django.VERSION < (6, 0):
            for file in (folder / "orders").glob("*.py"):
                file.write_text(file.read_text().replace("from django.tasks import", "from django_tasks import"))

        with (folder / "shop" / "settings.py").open("a") as settings:
            settings.write("\nWINDLASS = {'MODULES': ['tasks', 'more_tasks']}\n")

    @contextmanager
    def changing(self, path: str) -> Iterator[Path]:
        """Restore a file of the project after the block."""
        file = self.folder / path
        before = file.read_text()
        try:
            yield file
        finally:
            file.write_text(before)

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `manage.py` with arguments."""
        return self.python("manage.py", *arguments, **variables)

    def python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the folder of the project."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def scenario(self, name: str) -> Any:
        """Run a function of `orders.scenarios` in another process, and return what it prints."""
        run = self.python("-W", "error", "-m", "orders.scenarios", name)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)


class DjangoNode(NodeProcess):
    """`manage.py windlass_worker` of a project."""

    def __init__(self, project: DjangoProject, *flags: str) -> None:
        self.log_path = project.folder / f"node-{len(list(project.folder.glob('node-*')))}.log"
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "windlass_worker", *flags],
                cwd=project.folder,
                env=project.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def drain(self) -> int:
        """Drain the node and return its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(60)
