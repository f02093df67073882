"""Every hint names the distribution by its real name."""

from __future__ import annotations

import re
from importlib.metadata import version

from click.testing import CliRunner

from tests.support.processes import ROOT
from windlass.cli.main import main
from windlass.distribution import DISTRIBUTION

WRONG = re.compile(r"pip install ['\"]?windlass(?!-tasks)|windlass\[(postgres|tui|otel)\]")


def test_no_hint_names_the_unrelated_project() -> None:
    folders = [ROOT / "src", ROOT / "docs", ROOT / "examples"]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".yaml", ".mjs")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

    found = [str(path) for path in files if WRONG.search(path.read_text())]

    assert len(files) > 100
    assert found == []


def test_the_command_knows_its_version() -> None:
    result = CliRunner().invoke(main, ["--version"])

    assert (result.exit_code, version(DISTRIBUTION) in result.output) == (0, True)
