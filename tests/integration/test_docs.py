"""The docs tell the truth: their Python is run, their diagram is drawn from the rules, the demo does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.diagram import PAGE, drawn
from windlass import demo

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)
    if not block.startswith(">>>")
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_python_in_the_docs_runs(block: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr


def test_the_state_diagram_is_drawn_from_the_table_of_moves() -> None:
    assert PAGE.read_text() == drawn(), "run python -m tests.support.diagram"


def test_the_readme_names_the_two_commands_and_make_knows_them() -> None:
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()

    for target in ("demo", "test"):
        assert f"make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("store", ["sqlite", "memory", "postgres"])
def test_the_demo_ends_well_on_every_store(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path / 'demo.db'}", "memory": "memory:"}
    url = urls.get(store) or request.getfixturevalue("postgres_url")

    assert demo.main(["--store", url]) == 0

    said = capsys.readouterr().out
    assert "refused: its fence is stale" in said
    assert "node-1 is lost: 1 task runnable again" in said
    assert "1 cancelled, 13 completed, 1 failed; 15 submitted, 0 lost" in said
