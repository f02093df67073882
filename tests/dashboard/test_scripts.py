"""`make check-js`, which checks the types of the ES modules where npm can install the TypeScript compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import ROOT

STATIC = ROOT / "src" / "windlass" / "dashboard" / "static"
LOCK = ROOT / "tests" / "browser" / "types" / "package-lock.json"
NEEDED = ("make", "sh", "mkdir", "cp", "touch")

CheckScripts = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def check_scripts(tmp_path: Path) -> CheckScripts:
    """Return a function that runs `make check-js` on a machine with the given program as npm, or without npm."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in NEEDED:
        (programs / program).symlink_to(shutil.which(program) or program)

    def run(npm: str = "") -> subprocess.CompletedProcess[str]:
        if npm:
            (programs / "npm").write_text(f"#!{shutil.which('sh')}\n{npm}\n")
            (programs / "npm").chmod(0o755)
        environment = {"PATH": str(programs)}
        command = [programs / "make", "check-js", f"TYPESCRIPT={tmp_path / 'typescript'}"]
        return subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)

    return run


def test_without_npm_one_line_says_that_types_are_not_checked(check_scripts: CheckScripts) -> None:
    done = check_scripts()

    assert (done.returncode, done.stdout) == (
        0,
        "note: npm is not installed: skipped the types of the dashboard's scripts\n",
    )


def test_without_a_registry_a_note_names_the_log_of_npm(check_scripts: CheckScripts, tmp_path: Path) -> None:
    done = check_scripts(npm="echo ENOTFOUND; exit 1")

    assert done.returncode == 0
    assert done.stdout.startswith("note: npm cannot install TypeScript")
    assert "ENOTFOUND" in (tmp_path / "typescript" / "install.log").read_text()


@pytest.mark.parametrize("errors", [0, 2])
def test_a_type_error_fails_the_check(check_scripts: CheckScripts, tmp_path: Path, errors: int) -> None:
    tools = tmp_path / "typescript" / "node_modules" / ".bin"
    tools.mkdir(parents=True)
    (tools / "tsc").write_text(f"#!/bin/sh\nexit {errors}\n")
    (tools / "tsc").chmod(0o755)

    done = check_scripts(npm="exit 0")

    assert (done.returncode != 0) == (errors > 0), done.stderr


def test_the_lock_of_the_compiler_names_a_hash_and_no_host() -> None:
    [compiler] = [each for name, each in json.loads(LOCK.read_text())["packages"].items() if name]

    assert compiler["integrity"].startswith("sha512-")
    assert "://" not in LOCK.read_text()


def test_every_script_says_that_its_types_are_checked() -> None:
    for script in sorted(STATIC.glob("*.js")):
        assert script.read_text().startswith("// @ts-check\n/**"), script.name
