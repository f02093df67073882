"""The repository itself: its docs match the code, and its own rules hold."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

import windlass
from tests.support import voice
from windlass.core.lifecycle import INITIAL_STATES, MOVES

ROOT = Path(__file__).parents[1]
STORES = ROOT / "src" / "windlass" / "stores"
DIALECTS = ("postgres", "sqlite")
MAX_LINES = 800
"""A reminder, not a goal: split a file when it has two reasons to change (CONTRIBUTING.md)."""

DOCS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tests/**/*.md"),
    ]
)
PYTHON = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

FILE_NAMES = {
    path.name
    for folder in ("src", "tests", "docs", "benchmarks", "requirements")
    for path in (ROOT / folder).rglob("*.*")
}

MISSING_PATHS = {"uv.lock": "docs/decisions/0001-pip-readable-lock.md says why it does not exist"}
"""Paths that the docs name although they do not exist, and why."""


def below(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# SQL


def sources(dialect: str) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted((STORES / dialect / "sql").glob("*.sql"))}


def every_statement() -> list[Path]:
    return sorted(path for path in STORES.rglob("*.sql") if path.parent.name != "migrations" and path.stem != "schema")


def moves_in(source: str) -> set[tuple[str, str]]:
    """Return the moves that the header of a statement names; `new` is the state before a submit."""
    claimed: set[tuple[str, str]] = set()
    for line in re.findall(r"^-- moves: (.*)$", source, re.MULTILINE):
        match = re.fullmatch(r"(\w+(?: \| \w+)*) -> (\w+(?: \| \w+)*)", line)
        assert match, f"must have the form `a | b -> c | d`: {line}"
        claimed.update((old, new) for old in match[1].split(" | ") for new in match[2].split(" | "))
    return claimed


LEGAL = {("new", state.value) for state in INITIAL_STATES} | {
    (old.value, new.value) for old in MOVES for new in MOVES[old]
}


def test_both_dialects_have_the_same_statements() -> None:
    assert sources("postgres").keys() == sources("sqlite").keys()


def test_both_dialects_have_the_same_migrations() -> None:
    names = [[path.name for path in sorted((STORES / dialect / "migrations").iterdir())] for dialect in DIALECTS]

    assert names[0] == names[1]


def test_every_statement_starts_with_its_name_and_purpose() -> None:
    first = {path: path.read_text().partition("\n")[0] for path in every_statement()}

    assert [line for path, line in first.items() if not re.fullmatch(rf"-- {path.stem}: \S.*", line)] == []


def test_every_statement_is_one_statement() -> None:
    code = {below(path): re.sub(r"^\s*--.*\n", "", path.read_text(), flags=re.MULTILINE) for path in every_statement()}

    assert [name for name, text in code.items() if text.count(";") != 1 or not text.endswith(";\n")] == []


def test_every_move_that_a_statement_makes_is_legal() -> None:
    moves = {below(path): moves_in(path.read_text()) for path in every_statement()}

    assert {name: made - LEGAL for name, made in moves.items() if made - LEGAL} == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_statements_together_make_every_legal_move(dialect: str) -> None:
    made = {move for source in sources(dialect).values() for move in moves_in(source)}

    assert LEGAL - made == set()


def test_both_dialects_make_the_same_moves_in_the_same_statements() -> None:
    postgres, sqlite = ({name: moves_in(text) for name, text in sources(dialect).items()} for dialect in DIALECTS)

    assert postgres == sqlite


def test_every_statement_is_used() -> None:
    code = "\n".join(path.read_text() for path in STORES.rglob("*.py"))

    assert [below(path) for path in every_statement() if f'"{path.stem}"' not in code] == []


# The package


def test_the_public_names_are_sorted_and_complete() -> None:
    imported = {
        alias.name
        for node in ast.walk(ast.parse(Path(windlass.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("windlass")
        for alias in node.names
    }

    assert windlass.__all__ == sorted(windlass.__all__)
    assert set(windlass.__all__) == imported == {name for name in windlass.__all__ if hasattr(windlass, name)}


def test_the_command_line_starts_without_the_rest_of_the_package() -> None:
    """It must print its help in 150 ms of processor time, which unnecessary imports would exceed."""
    code = "import sys, windlass.cli.main; print(*[name for name in sys.modules if name.startswith('windlass')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert set(output.split()) == {"windlass", "windlass.cli", "windlass.cli.main", "windlass.errors"}


def test_every_public_name_is_in_the_docs() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))

    assert [name for name in windlass.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_no_source_file_is_very_long() -> None:
    files = [path for kind in ("*.py", "*.sql") for path in (ROOT / "src").rglob(kind)]
    lengths = {below(path): len(path.read_text().splitlines()) for path in files}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


FORBIDDEN_IMPORTS = {
    "sqlite3": "two SQLite libraries in one process drop each other's file locks; use apsw",
    "pickle": "tasks carry names and plain data, never code",
    "cPickle": "tasks carry names and plain data, never code",
    "dill": "tasks carry names and plain data, never code",
    "marshal": "tasks carry names and plain data, never code",
    "shelve": "tasks carry names and plain data, never code",
}
FORBIDDEN_CALLS = {"eval": "data must not become code", "exec": "data must not become code"}


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every imported module and every called plain name, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name.partition(".")[0]) for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield node.lineno, module.partition(".")[0]
            case ast.Call(func=ast.Name(id=name)):
                yield node.lineno, name
            case _:
                pass


def test_forbidden_modules_and_functions_are_not_used() -> None:
    forbidden = FORBIDDEN_IMPORTS | FORBIDDEN_CALLS
    name_of_one = re.compile(rf"\b({'|'.join(forbidden)})\b")  # Most files have none of them: no parsing.
    texts = {below(path): path.read_text() for path in PYTHON}
    uses = [(path, *use) for path, text in texts.items() if name_of_one.search(text) for use in used(ast.parse(text))]

    assert [f"{path}:{line}: {name}: {forbidden[name]}" for path, line, name in uses if name in forbidden] == []


# The docs


def named_paths(text: str) -> set[str]:
    """Return the names in backticks that look like our paths: with a slash, or with a file extension."""
    quoted = re.findall(r"`([\w.-]+(?:/[\w.-]*)*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return {name for name in quoted if "/" in name or re.search(r"\.(py|md|sql|toml|txt|lock|ya?ml|db)$", name)}


def exists(name: str, document: Path) -> bool:
    """Return whether a path exists: relative to the root, the document or the package; a bare name anywhere."""
    places = (ROOT, document.parent, ROOT / "src" / "windlass", STORES, *(STORES / dialect for dialect in DIALECTS))
    return any((place / name).exists() for place in places) or name in FILE_NAMES


@pytest.mark.parametrize("document", DOCS, ids=below)
def test_the_paths_that_a_document_names_exist(document: Path) -> None:
    missing = {name for name in named_paths(document.read_text()) if not exists(name, document)}

    assert missing - MISSING_PATHS.keys() == set()


def test_the_missing_paths_are_missing() -> None:
    assert {name for name in MISSING_PATHS if exists(name, ROOT / "README.md")} == set()


@pytest.mark.parametrize("document", DOCS, ids=below)
def test_the_links_of_a_document_exist(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())

    assert [link for link in links if ":" not in link and not (document.parent / link).exists()] == []


def test_the_documents_named_in_the_code_exist() -> None:
    code = [*PYTHON, *(ROOT / "src").rglob("*.sql")]
    named = {(below(path), name) for path in code for name in re.findall(r"\bdocs/[\w./-]+\.md", path.read_text())}

    assert {(path, name) for path, name in named if not (ROOT / name).exists()} == set()


ARCHITECTURE = ROOT / "docs" / "architecture"
MAX_PATH_FILES = 12


def table_rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of an architecture page."""
    section = (ARCHITECTURE / page).read_text().split(f"## {heading}\n")[1].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def path_steps() -> list[tuple[str, str]]:
    """Return the file and the function of every step of a task's path, as the overview lists them."""
    rows = [
        re.findall(r"`([^`]+)`", "|".join(cells[-3:-1])) for cells in table_rows("overview.md", "The path of a task")
    ]
    return [(file, name) for file, *names in rows for name in names]


@pytest.mark.parametrize(("file", "name"), path_steps())
def test_the_functions_on_the_path_of_a_task_exist(file: str, name: str) -> None:
    module = importlib.import_module(file.removeprefix("src/").removesuffix(".py").replace("/", "."))

    found = functools.reduce(getattr, name.split("."), module)

    assert callable(found)


def test_the_path_of_a_task_is_short() -> None:
    files = {file for file, _ in path_steps()}

    assert 8 <= len(files) <= MAX_PATH_FILES


def test_the_overview_lists_the_packages_that_exist() -> None:
    package = ROOT / "src" / "windlass"
    found = {below(path.parent) for path in [*package.glob("*/__init__.py"), *package.glob("server/*/__init__.py")]}
    listed = {re.sub(r"[`/]+$", "", cells[0].strip("`")) for cells in table_rows("overview.md", "The packages")}

    assert listed == found - {"src/windlass/server"}


def test_the_glossary_has_every_public_class_of_the_worker_package() -> None:
    glossary = (ARCHITECTURE / "glossary.md").read_text()
    classes = {name for path in (ROOT / "src" / "windlass" / "worker").glob("*.py") for name in class_names(path)}

    assert {name for name in classes if not name.startswith("_") and f"`{name}`" not in glossary} == set()


def test_the_glossary_has_every_term_that_the_architecture_pages_mark() -> None:
    terms = {
        term
        for cells in re.findall(r"^\| ([^|`]+) \|", (ARCHITECTURE / "glossary.md").read_text(), re.MULTILINE)
        for term in cells.strip().split(", ")
    }
    marked = {
        (page.name, term)
        for page in ARCHITECTURE.glob("*.md")
        for line in page.read_text().splitlines()
        if not line.startswith("|")
        for term in re.findall(r"\*\*([a-z][a-z ]*)\*\*", line)
    }

    assert len(marked) >= 6
    assert {(page, term) for page, term in marked if term.removesuffix("s") not in terms and term not in terms} == set()


# Language


WRITTEN = {
    **{below(path): path for path in sorted((ROOT / "src" / "windlass").glob("*/"))},
    "src/windlass/*.py": ROOT / "src" / "windlass",
    **{below(path): path for path in sorted((ROOT / "tests").glob("*/"))},
    "tests/*.py": ROOT / "tests",
    **{
        name: ROOT / name
        for name in ("docs", "benchmarks", "examples", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    },
}
WRITTEN = {name: path for name, path in WRITTEN.items() if "__pycache__" not in name}
NOT_YET_PLAIN: frozenset[str] = frozenset()


@pytest.mark.parametrize("name", sorted(WRITTEN.keys() - NOT_YET_PLAIN))
def test_we_write_plain_english(name: str) -> None:
    path = WRITTEN[name]
    paths = sorted(path.glob("*.py")) if name.endswith("*.py") else [path]
    found = [
        f"{below(file)}:{line}: {word!r}: write {better}"
        for file in voice.files(paths)
        for line, word, better in voice.findings(file)
    ]

    assert found == []


def class_names(path: Path) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


PACKAGES = sorted({below(path.parent) for path in (ROOT / "src").rglob("*.py")})
NOT_YET_UNIQUE: frozenset[str] = frozenset()


@pytest.mark.parametrize("package", sorted({*PACKAGES} - NOT_YET_UNIQUE))
def test_the_classes_of_a_package_have_different_names(package: str) -> None:
    counts = Counter(name for path in (ROOT / package).glob("*.py") for name in class_names(path))

    assert {name: number for name, number in counts.items() if number > 1} == {}


KINDS_OF_CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_has_the_required_form() -> None:
    title, *rest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    releases = [release.partition("\n") for release in rest]

    assert title.startswith("# Changelog\n")
    assert releases[0][0] == "[Unreleased]"
    dated = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading, _, _ in releases[1:]]
    assert all(dated), "the heading of a release is `[1.2.3] - 2026-01-31`"
    days = [date.fromisoformat(match[2]) for match in dated if match]
    assert days == sorted(days, reverse=True), "the newest release comes first"
    for _, _, body in releases:
        check_changes(body)


def check_changes(body: str) -> None:
    """Check the changes of one release: kinds in order and without repetition, every change a full sentence."""
    before, *parts = re.split(r"^### ", body, flags=re.MULTILINE)
    assert before.strip() == ""
    kinds = [part.partition("\n")[0] for part in parts]
    assert kinds == [kind for kind in KINDS_OF_CHANGES if kind in kinds]
    for part in parts:
        changes = re.split(r"^- ", part.partition("\n")[2].strip(), flags=re.MULTILINE)
        assert changes.pop(0) == "", "a kind contains only changes"
        for change in changes:
            assert re.fullmatch(r"[A-Z`].*\.", change.strip(), re.DOTALL), f"not a full sentence: {change}"
