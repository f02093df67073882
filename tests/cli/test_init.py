"""`windlass init`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.processes import until
from windlass.cli.init_templates import module_name
from windlass.cli.main import main
from windlass.config import read_settings

BARE = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "PYTEST_", "COV_"))}


def windlass(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "windlass", *words]
    return subprocess.run(command, cwd=folder, env=BARE, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a new app."""
    folder = tmp_path / "shop"
    result = CliRunner().invoke(main, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def test_files_and_next_steps_are_printed(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["init", str(tmp_path / "my-shop")])
    named = [Path(line) for line in result.stdout.splitlines()]

    assert [path.name for path in named] == ["my_shop.py", "test_my_shop.py", "windlass.yaml", ".gitignore"]
    assert all(path.read_text() for path in named)
    assert f"cd {tmp_path / 'my-shop'}\n  pytest\n  python my_shop.py\n  windlass worker" in result.stderr
    assert read_settings(tmp_path / "my-shop" / "windlass.yaml").app == "my_shop:app"


def test_the_generated_test_passes(shop: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=shop, env=BARE, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_generated_test_fails_when_the_app_is_wrong(shop: Path) -> None:
    app = shop / "shop.py"
    app.write_text(app.read_text().replace('key=f"welcome:{address}"', "priority=1"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=shop, env=BARE, capture_output=True, text=True, check=False, timeout=120)

    assert "1 failed" in done.stdout


def test_a_node_runs_the_tasks_of_the_app(shop: Path) -> None:
    script = subprocess.run([sys.executable, "shop.py"], cwd=shop, env=BARE, capture_output=True, text=True, check=True)
    worker = subprocess.Popen([sys.executable, "-m", "windlass", "worker"], cwd=shop, env=BARE, stderr=subprocess.PIPE)
    try:
        until(lambda: "completed" in windlass("tasks", "ls", folder=shop).stdout, "the welcome is sent")
        result = windlass("enqueue", "shop.send", "to=bob", "subject=hello", "--wait", folder=shop)
        worker.terminate()
        _, log = worker.communicate(timeout=60)
    finally:
        worker.kill()

    assert "enqueued" in script.stdout
    assert (result.stdout.strip(), worker.returncode) == ("5", 0), log


def test_a_folder_that_is_not_empty_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    result = CliRunner().invoke(main, ["init", str(tmp_path)])

    assert (result.exit_code, "is not empty (notes.txt)" in result.stderr) == (2, True), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")

    result = CliRunner().invoke(main, ["init", str(tmp_path / "shop")])

    assert (result.exit_code, "is a file" in result.stderr) == (2, True)
    assert (tmp_path / "shop").read_text() == "mine"


def test_an_empty_folder_is_accepted(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["init", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("shop", "shop"),
        ("My Shop", "my_shop"),
        ("a.b", "a_b"),
        *((name, "tasks") for name in ("json", "windlass", "2nd", "class", "bücher", "", "test")),
    ],
)
def test_the_module_has_the_name_of_the_folder_unless_it_is_taken(folder: str, module: str) -> None:
    assert module_name(folder) == module
