"""docs/reference/http.md is correct: its commands run, and its tables match the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import windlass.errors
from tests.server.conftest import MANIFEST
from tests.server.running import running
from windlass.autoscale.stored_state import POOL, PoolDecision, encode_document
from windlass.errors import WindlassError
from windlass.server.routes.table import TABLE
from windlass.stores.sqlite import SQLiteStore
from windlass.wire.problems import STATUSES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
EXAMPLES = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
MARK = "---- the next command"


def pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for the documented output. `…` matches anything."""
    return re.compile(re.escape(text).replace("…", ".*"), re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "tasks.db")
    store.publish(MANIFEST)
    reasons = ("2 tasks a second", "each takes 1.5 s")
    decision = PoolDecision(tick=1, target=3, queues=("mail",), reasons=reasons)
    store.put_control(POOL, "mail", encode_document(decision), expect=0)
    commands = re.findall(r"^\$ (.*)$", EXAMPLES, re.MULTILINE)
    answers = [part.partition("\n")[2].strip() for part in re.split(r"^\$ ", EXAMPLES, flags=re.MULTILINE)[1:]]

    with running(store) as address:
        script = "\n".join(f"{command}\necho; echo '{MARK}'" for command in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={"URL": address, "PATH": "/usr/bin:/bin"},
        )
    store.close()

    given = [part.strip() for part in done.stdout.split(MARK)]
    assert len(commands) > 10
    for command, answer, output in zip(commands, answers, given, strict=False):
        assert pattern(answer).fullmatch(output), f"{command}\n{output}\nand not\n{answer}"


def test_the_page_lists_every_route_with_its_scope() -> None:
    listed = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|", PAGE, re.MULTILINE)

    assert listed == [(route.method, route.path, route.scope or "none") for route in TABLE]


def test_the_page_lists_every_code_with_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    listed = {code: int(status) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert listed == STATUSES


def test_every_error_has_a_status() -> None:
    kinds = [kind for kind in vars(windlass.errors).values() if isinstance(kind, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, WindlassError)} - {"still_unfinished"}

    assert codes <= STATUSES.keys()
