"""The files of `windlass deploy`, and programs that validate them if they are installed."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from windlass.cli.main import main


def made(*words: str) -> str:
    """Return what the command prints."""
    result = CliRunner().invoke(main, ["deploy", *words])
    assert result.exit_code == 0, result.output
    assert "@{" not in result.stdout, "a name was not filled in"
    return result.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """Parse the YAML documents of a text."""
    return list(yaml.safe_load_all(text))


def judged(*command: str) -> str:
    """Return the output of a program that accepts a file; skip the test if it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed; the checks by hand stand alone")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
