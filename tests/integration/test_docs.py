"""The Python and the commands in the docs run, and the diagram is generated from the rules."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.diagram import PAGE, drawn
from tests.support.processes import until
from windlass.config import NodeSettings, read_settings
from windlass.events import Event

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)
    if not block.startswith(">>>") and not re.match(r"# \S+/\S+\.py\n", block)  # those of projects: tests/integrations
]


OTHERS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted((ROOT / "docs" / "migrate").glob("*.md"))
    for number, block in enumerate(re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL), 1)
]
README = (ROOT / "README.md").read_text()
WITH_COMMANDS = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]
WORKERS_GUIDE = (ROOT / "docs" / "guides" / "workers.md").read_text()
NODES = re.findall(r"^windlass worker [^#\n]*", WORKERS_GUIDE, re.MULTILINE)
READY = '"after":"idle"'


@pytest.mark.parametrize("block", BLOCKS)
def test_the_python_in_the_docs_runs(block: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "shop.py").write_text(block)
    environment = dict(os.environ)
    if "DATABASE_URL" in block:
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    run = subprocess.run(
        [sys.executable, "-W", "error", "shop.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("block", OTHERS)
def test_the_code_of_other_libraries_is_valid_and_runs_where_they_are_installed(block: str, tmp_path: Path) -> None:
    [library] = re.findall(r"^(?:from|import) (celery|rq|dramatiq|huey|procrastinate)\b", block, re.MULTILINE)[:1]
    compile(block, library, "exec")
    if find_spec(library) is not None:
        (tmp_path / "shop.py").write_text(block)
        subprocess.run([sys.executable, "-c", "import shop"], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in WITH_COMMANDS])
def test_the_commands_of_the_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    """Run all console blocks of a page in one shell, in the folder of the file that the page shows."""
    write_the_shop(tmp_path, page)
    console = "".join(re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL))
    commands = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    awaited = f"until grep -q '{READY}' node.log; do sleep 0.05; done"
    script = [f"{line[:-1]} 2> node.log & {awaited}" if line.endswith("&") else line for line in commands]

    run = subprocess.run(
        ["bash", "-emc", "\n".join([*script, "wait"])],
        check=False,
        cwd=tmp_path,
        env=shell_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    assert commands
    for line in console.splitlines():
        assert line.startswith("$ ") or line in run.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("command", NODES)
def test_the_nodes_of_the_guide_start_and_drain(command: str, tmp_path: Path) -> None:
    write_the_shop(tmp_path)
    log = tmp_path / "node.log"
    with log.open("w") as errors:
        node = subprocess.Popen(
            command.split(), cwd=tmp_path, env=shell_environment(), stderr=errors, stdin=subprocess.DEVNULL
        )
    try:
        until(lambda: READY in log.read_text() or node.poll() is not None, "a worker is ready")
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()


def test_the_settings_files_of_the_guide_are_taken(tmp_path: Path) -> None:
    named: list[list[str]] = []
    for text in re.findall(r"```yaml\n(.*?)```", WORKERS_GUIDE, re.DOTALL):
        (tmp_path / "windlass.yaml").write_text(text)
        settings = read_settings(tmp_path / "windlass.yaml")
        NodeSettings(app=settings.app or "", pools=settings.pools, budget=settings.budget).check()
        named.append([pool.name for pool in settings.pools])

    assert named == [["mail", "bulk"], ["light", "heavy"]]


def write_the_shop(folder: Path, page: Path = ROOT / "README.md") -> None:
    """The file that a page shows."""
    [shop] = re.findall(r"```python\n# shop.py\n(.*?)```", page.read_text(), re.DOTALL)
    (folder / "shop.py").write_text(shop)


def shell_environment() -> dict[str, str]:
    """One in which `windlass` and `python` are this environment's, and nothing says where the store is."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return {**own, "PATH": os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])}


def test_every_link_leads_to_a_page_and_its_heading() -> None:
    broken: list[str] = []
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            if not linked.exists() or (anchor and anchor not in anchors(linked.read_text())):
                broken.append(f"{page.relative_to(ROOT)}: {target}")

    assert broken == []


def test_every_page_is_listed_on_an_index_page() -> None:
    listed: set[Path] = set()
    for page in (ROOT / "docs").rglob("index.md"):
        listed |= {(page.parent / link).resolve() for link in re.findall(r"\]\(([\w/-]+\.md)\)", page.read_text())}

    assert {page for page in PAGES if page.parent != ROOT} - listed == {ROOT / "docs" / "index.md"}


def test_the_reference_lists_every_event_of_a_node() -> None:
    reference = (ROOT / "docs" / "reference" / "events.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", reference, re.MULTILINE))

    assert named == {event.__name__ for event in Event.__subclasses__()}


def anchors(markdown: str) -> set[str]:
    """Return the anchors that a page has for its headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", markdown, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_state_diagram_is_drawn_from_the_table_of_moves() -> None:
    assert PAGE.read_text() == drawn(), "run python -m tests.support.diagram"


def test_the_readme_names_the_two_commands_and_make_knows_them() -> None:
    makefile = (ROOT / "Makefile").read_text()

    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
