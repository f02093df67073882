"""docs/reference/cli.md lists every command and every exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.tree import COMMANDS
from windlass.cli.main import COMMANDS as LINES
from windlass.cli.main import EXITS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def test_the_docs_list_exactly_the_commands() -> None:
    documented = {
        re.findall(r"^(?:[a-z-]+ ?)+", line)[0].strip()
        for line in re.findall(r"^\| `windlass ([^`]*)`", PAGE, re.MULTILINE)
    }

    assert documented == COMMANDS.keys()


def test_the_docs_list_the_exit_statuses() -> None:
    rows = re.findall(r"^\| (\d) \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    documented = {code: int(status) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert documented == EXITS
    assert sorted({int(status) for status, _ in rows}) == [0, 1, *sorted(set(EXITS.values()))]


def test_help_imports_no_command_and_no_library() -> None:
    code = (
        "import sys\nfrom windlass.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())

    assert all(name in done.stdout for name in LINES)
    assert {name for name in loaded if name.startswith("windlass")} == {
        "windlass",
        "windlass.cli",
        "windlass.cli.main",
        "windlass.errors",
    }
    assert loaded.isdisjoint({"rich", "msgspec", "apsw", "psycopg", "starlette", "uvicorn", "yaml", "cronsim"})
