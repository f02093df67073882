"""The types of the ES modules, checked by the TypeScript compiler where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "src" / "windlass" / "dashboard" / "static"
OPTIONS = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--module", "es2022"]


def test_the_types_of_the_scripts_are_right() -> None:
    compiler = shutil.which("tsc")
    if compiler is None:
        pytest.skip("tsc is not installed: npm install --global typescript")

    found = subprocess.run(
        [compiler, *OPTIONS, "--lib", "es2023,dom,dom.iterable", *map(str, sorted(STATIC.glob("*.js")))],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert found.returncode == 0, found.stdout


def test_every_script_can_be_parsed_and_says_that_it_is_checked() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")

    for script in sorted(STATIC.glob("*.js")):
        assert script.read_text().startswith("// @ts-check\n/**"), script.name
        subprocess.run([node, "--check", str(script)], check=True, timeout=60)
