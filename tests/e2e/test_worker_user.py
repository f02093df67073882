"""A node of root whose workers run as another user: they can neither reach the node nor open the store."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes import PATIENCE
from tests.support.processes import ROOT, open_store
from windlass.client.app import App

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run workers as another user"),
]
USER = "nobody"
PATHS = os.pathsep.join([str(Path(ROOT) / "src"), sysconfig.get_path("purelib")])
PROGRAM = """
import os

import windlass

app = windlass.App()


def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"


@app.task
def look(database: str) -> dict[str, object]:
    node = int(os.environ["WINDLASS_NODE_PID"])
    return {
        "uid": os.geteuid(),
        "groups": 0 in os.getgroups(),
        "home": os.environ["HOME"],
        "url": os.environ.get("WINDLASS_URL"),
        "signal": attempt(lambda: os.kill(node, 0)),
        "memory": attempt(lambda: open(f"/proc/{node}/mem", "rb")),
        "environment": attempt(lambda: open(f"/proc/{node}/environ").read()),
        "database": attempt(lambda: open(database, "rb")),
    }
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read, with the program in it."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    (made / "program.py").write_text(PROGRAM)
    yield made
    shutil.rmtree(made)


def find_python(folder: Path) -> str:
    """Return a Python that the other user can run too."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        words = [python, "-c", "import windlass.worker.worker_parent"]
        try:
            done = subprocess.run(  # noqa: PLW1510 - the return code is compared
                words, user=USER, group="nogroup", extra_groups=[], env={"PYTHONPATH": PATHS}, cwd=folder, timeout=60
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip(f"{USER} cannot run any Python of this version here")


def test_workers_of_another_user_reach_neither_the_node_nor_the_store(folder: Path) -> None:
    database = folder / "tasks.db"
    store = open_store(str(database))
    words = ["worker", "program:app", "-n", "1", "--worker-user", USER, "--hide-store-url"]
    environment = {**os.environ, "PYTHONPATH": PATHS, "WINDLASS_URL": f"sqlite:///{database}"}
    node = subprocess.Popen(
        [find_python(folder), "-m", "windlass", *words], cwd=folder, env=environment, stderr=subprocess.PIPE
    )
    try:
        app = App(store=store)
        look = app.task(name="program.look")(lambda database: None)  # pyright: ignore[reportUnknownLambdaType]
        found = look.enqueue(str(database)).result(PATIENCE)
    finally:
        node.kill()
        _, log = node.communicate()
        store.close()

    nobody = pwd.getpwnam(USER)
    assert found == {
        "uid": nobody.pw_uid,
        "groups": False,
        "home": nobody.pw_dir,
        "url": None,
        "signal": "PermissionError",
        "memory": "PermissionError",
        "environment": "PermissionError",
        "database": "PermissionError",
    }, log.decode()


def test_a_user_that_does_not_exist_is_named(folder: Path) -> None:
    words = [sys.executable, "-m", "windlass", "worker", "program:app", "--worker-user", "nobody-at-all"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "worker_user='nobody-at-all': there is no such user on this machine." in done.stderr
