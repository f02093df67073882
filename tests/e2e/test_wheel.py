"""The wheel: built, installed in a clean environment with nothing but its dependencies, and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from windlass.distribution import DISTRIBUTION, install_hint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the source, as `make wheel` does."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "dist"]
    subprocess.run([*pip, "wheel", *flags, "."], cwd=folder, check=True, capture_output=True)
    [built] = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and copies of its dependencies, which are installed here already."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in sorted(dependencies(DISTRIBUTION)):
        copy_distribution(name, packages)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "venv")]
    command = [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def dependencies(name: str) -> set[str]:
    """Return the distributions that a distribution needs without its extras, directly and indirectly."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for needed in requirements(pending.pop()):
            if needed not in found:
                found.add(needed)
                pending.append(needed)
    return found


def requirements(name: str) -> Iterator[str]:
    for line in distribution(name).requires or []:
        text, _, marker = line.partition(";")
        match = re.match(r"[A-Za-z0-9._-]+", text)
        assert match is not None, line
        installed = "extra ==" not in marker and _is_installed(match[0])
        if installed:
            yield match[0]


def _is_installed(name: str) -> bool:
    """Return False for a dependency of another platform or Python."""
    try:
        distribution(name)
    except ModuleNotFoundError:
        return False
    return True


def copy_distribution(name: str, packages: Path) -> None:
    here = Path(sysconfig.get_path("purelib")).resolve()
    for file in distribution(name).files or []:
        source = Path(str(file.locate())).resolve()
        if source.is_relative_to(here) and source.suffix != ".pyc" and source.exists():
            target = packages / source.relative_to(here)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def test_the_wheel_has_the_name_of_the_distribution_and_every_data_file(wheel: Path) -> None:
    package = ROOT / "src" / "windlass"
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    found = set(zipfile.ZipFile(wheel).namelist())

    assert wheel.name.startswith("windlass_tasks-")
    assert wanted <= found


def test_the_demo_runs_from_the_wheel_in_a_clean_environment(clean: Path) -> None:
    command = clean / "venv" / "bin" / "windlass"

    run = subprocess.run(
        [str(command), "demo", "--seconds", "4"],
        cwd=clean,
        env={"PATH": "/usr/bin:/bin", "HOME": str(clean)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 lost" in run.stdout
    assert (clean / "windlass-demo.db").exists()


def test_a_missing_driver_names_the_package_to_install(clean: Path) -> None:
    command = clean / "venv" / "bin" / "windlass"

    run = subprocess.run(
        [str(command), "tasks", "ls", "--store", "postgresql://localhost/none"],
        cwd=clean,
        check=False,
        capture_output=True,
        text=True,
    )

    assert run.returncode != 0
    assert install_hint("postgres") in run.stderr
