from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from windlass.cli.main import main
from windlass.tui.app import Top


def test_without_textual_an_error_explains_how_to_install_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from windlass.cli.main import main; main(['top'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert 'pip install "windlass-tasks[tui]"' in done.stderr


def test_the_command_passes_its_options_to_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Top] = []

    def run(top: Top) -> None:
        ran.append(top)

    monkeypatch.setattr(Top, "run", run)
    url = f"sqlite:///{tmp_path / 'tasks.db'}"

    done = CliRunner().invoke(main, ["top", "--store", url, "--by", "ann", "--read-only", "--light"])

    assert (done.exit_code, done.output, len(ran)) == (0, "", 1)
    assert (ran[0]._by, ran[0]._writable, ran[0]._light) == ("ann", False, True)  # pyright: ignore[reportPrivateUsage]
