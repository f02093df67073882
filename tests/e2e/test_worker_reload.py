"""`windlass worker --reload`: a changed file runs as changed, and code that cannot be imported runs nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.nodes import NodeProcess, gone
from tests.support.processes import until
from windlass import App, Handle, State
from windlass.cli.reload import outermost

pytestmark = pytest.mark.slow

APP = """
import pathlib, time
import windlass

app = windlass.App()


@app.task(name="version")
def version() -> str:
    return VERSION


@app.task(name="wait", retries=0)
def wait() -> str:
    pathlib.Path("started").touch()
    while VERSION == "one":
        time.sleep(0.01)
    return VERSION


VERSION = "one"
"""


class Project:
    """A folder with an app, whose worker reloads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'tasks.db'}"
        self.app = App(self.url)
        self.version = self.app.task(name="version")(lambda: "")
        self.wait = self.app.task(name="wait", retries=0)(lambda: "")
        self.write(APP)

    def write(self, text: str) -> None:
        """Replace the module, as editors do. Its time stays, as within the second to which .pyc files compare it."""
        other = self.folder / "reload_shop.new"
        other.write_text(text)
        os.utime(other, (1_700_000_000, 1_700_000_000))
        other.replace(self.folder / "reload_shop.py")

    def result(self, handle: Handle[Any]) -> Any:
        return handle.result(30)


class ReloadingNode(NodeProcess):
    """`windlass worker --reload` in the folder of a project."""

    def __init__(self, project: Project, *flags: str) -> None:
        self.log_path = project.folder / "node.log"
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass", "worker", "reload_shop:app", "--reload", "-n", "1", *flags],
                cwd=project.folder,
                env={**os.environ, "WINDLASS_URL": project.url, "PYTHONDONTWRITEBYTECODE": ""},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    yield project
    project.app.close()


def test_new_code_runs_after_a_change_and_broken_code_runs_nothing(project: Project) -> None:
    with ReloadingNode(project) as node:
        assert project.result(project.version.enqueue()) == "one"
        assert "development only" in node.events("ReloadMode")[0]["message"]

        running = project.wait.enqueue()
        until((project.folder / "started").exists, "a task runs that does not end with the old code")
        for _ in range(5):  # Rapid saves are one restart.
            project.write(APP.replace('VERSION = "one"', 'VERSION = "two"'))
        until(lambda: len(node.events("NodeStarted")) == 2, "it has restarted")
        assert project.result(project.version.enqueue()) == "two"
        assert project.result(running) == "two", "it was released and runs again with the new code"
        assert running.task().attempts == 1
        assert [each["step"] for each in node.events("NodeDraining")][:3] == [1, 2, 3], "it was stopped, not killed"
        [reload] = node.events("Reloading")
        assert [Path(file).name for file in reload["files"]] == ["reload_shop.py"]

        project.write("import nothing_of_this_name")
        [waiting] = node.await_event("ReloadWaiting")
        later = project.version.enqueue()
        assert waiting["status"] == 3
        assert "No module named 'nothing_of_this_name'" in node.log
        assert [process for process in node.descendants() if not gone(process.pid)] == [], "no old code is served"
        assert later.state is State.RUNNABLE

        (project.folder / "notes.txt").write_text("not code")
        project.write(APP.replace('"one"', '"six"'))
        assert project.result(later) == "six"

        (project.folder / "windlass.yaml").write_text("pools: {default: {threads: 2}}")
        node.await_event("Reloading", 4)
        until(lambda: "×2 for default" in node.events("NodeStarted")[-1]["pools"], "it has the new settings")

        assert node.terminate() == 0
        assert node.descendants() == []


def test_it_ends_with_its_signals_and_its_parent(project: Project) -> None:
    with ReloadingNode(project) as node:
        node.await_workers()
        project.wait.enqueue()
        until((project.folder / "started").exists, "a task runs")
        node.send(signal.SIGINT)
        node.await_event("NodeDraining")
        node.send(signal.SIGINT)
        node.await_event("NodeDraining", 2)
        node.send(signal.SIGINT)
        assert node.process.wait(30) == 0

    with ReloadingNode(project) as node:
        node.await_workers()
        processes = node.descendants()
        try:
            node.kill()
            until(lambda: all(gone(process.pid) for process in processes), "nothing outlives the parent")
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def test_without_watchfiles_it_says_what_to_install(project: Project, tmp_path: Path) -> None:
    (tmp_path / "watchfiles.py").write_text("raise ModuleNotFoundError(name='watchfiles')")
    run = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", "reload_shop:app", "--reload"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert 'pip install "windlass-tasks[reload]"' in run.stderr


def test_folders_are_watched_once_and_never_the_whole_file_system(tmp_path: Path) -> None:
    inner = tmp_path / "shop"
    inner.mkdir()

    assert outermost([tmp_path, inner, tmp_path]) == [tmp_path]
    assert outermost([Path("/"), inner]) == [inner]
    assert outermost([Path("/")]) == [Path("/")]
