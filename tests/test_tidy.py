"""The repository itself: that what is written about it is so, and that its rules for itself are kept."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

import windlass
from windlass.core.lifecycle import INITIAL_STATES, MOVES

ROOT = Path(__file__).parents[1]
STORES = ROOT / "src" / "windlass" / "stores"
DIALECTS = ("postgres", "sqlite")
MOST_LINES = 600

DOCS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
PYTHON = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

FILE_NAMES = {
    path.name
    for folder in ("src", "tests", "docs", "benchmarks", "requirements")
    for path in (ROOT / folder).rglob("*.*")
}

NOT_THERE = {
    "tests/simulation/": "comes with the node",
    "uv.lock": "the record 0001 says why there is none",
}
"""Paths that the docs name although they do not exist, and why. One that comes to exist leaves this list."""


def below(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# SQL


def sources(dialect: str) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted((STORES / dialect / "sql").glob("*.sql"))}


def every_statement() -> list[Path]:
    return sorted(path for path in STORES.rglob("*.sql") if path.parent.name != "migrations" and path.stem != "schema")


def moves_in(source: str) -> set[tuple[str, str]]:
    """The moves that a statement's header claims; `new` stands before a task's birth."""
    claimed: set[tuple[str, str]] = set()
    for line in re.findall(r"^-- moves: (.*)$", source, re.MULTILINE):
        match = re.fullmatch(r"(\w+(?: \| \w+)*) -> (\w+(?: \| \w+)*)", line)
        assert match, f"not of the form `a | b -> c | d`: {line}"
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


def test_every_statement_says_what_it_is() -> None:
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


def test_the_public_names_are_sorted_and_are_all_there_are() -> None:
    imported = {
        alias.name
        for node in ast.walk(ast.parse(Path(windlass.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("windlass")
        for alias in node.names
    }

    assert windlass.__all__ == sorted(windlass.__all__)
    assert set(windlass.__all__) == imported == {name for name in windlass.__all__ if hasattr(windlass, name)}


def test_the_command_line_starts_without_the_rest_of_the_package() -> None:
    """It prints its help in 150 ms of processor time; what would make it slower is importing what it does not need."""
    code = "import sys, windlass.cli.main; print(*[name for name in sys.modules if name.startswith('windlass')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert set(said.split()) == {"windlass", "windlass.cli", "windlass.cli.main", "windlass.errors"}


def test_every_public_name_is_in_the_docs() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))

    assert [name for name in windlass.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_no_source_file_is_too_long_to_be_read() -> None:
    files = [path for kind in ("*.py", "*.sql") for path in (ROOT / "src").rglob(kind)]
    lengths = {below(path): len(path.read_text().splitlines()) for path in files}

    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


FORBIDDEN_IMPORTS = {
    "sqlite3": "two SQLite libraries in one process drop each other's file locks; use apsw",
    "pickle": "tasks carry names and plain data, never code",
    "cPickle": "the same",
    "dill": "the same",
    "marshal": "the same",
    "shelve": "the same",
}
FORBIDDEN_CALLS = {"eval": "no data becomes code", "exec": "the same"}


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that is imported and every plain name that is called, with its line."""
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


def test_no_code_is_made_from_data_and_sqlite_has_one_library() -> None:
    forbidden = FORBIDDEN_IMPORTS | FORBIDDEN_CALLS
    uses = [(below(path), *use) for path in PYTHON for use in used(ast.parse(path.read_text()))]

    assert [f"{path}:{line}: {name}: {forbidden[name]}" for path, line, name in uses if name in forbidden] == []


# The docs


def named_paths(text: str) -> set[str]:
    """What stands in backticks and looks like a path of ours: it has a slash, or the ending of a file."""
    quoted = re.findall(r"`([\w.-]+(?:/[\w.-]*)*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return {name for name in quoted if "/" in name or re.search(r"\.(py|md|sql|toml|txt|lock|ya?ml|db)$", name)}


def exists(name: str, document: Path) -> bool:
    """Whether there is such a path: from the root, beside the document or in the package; a bare name anywhere."""
    places = (ROOT, document.parent, ROOT / "src" / "windlass", STORES, *(STORES / dialect for dialect in DIALECTS))
    return any((place / name).exists() for place in places) or name in FILE_NAMES


@pytest.mark.parametrize("document", DOCS, ids=below)
def test_the_paths_that_a_document_names_exist(document: Path) -> None:
    missing = {name for name in named_paths(document.read_text()) if not exists(name, document)}

    assert missing - NOT_THERE.keys() == set()


def test_what_is_said_not_to_exist_does_not() -> None:
    assert {name for name in NOT_THERE if exists(name, ROOT / "README.md")} == set()


@pytest.mark.parametrize("document", DOCS, ids=below)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())

    assert [link for link in links if ":" not in link and not (document.parent / link).exists()] == []


def test_the_documents_that_the_code_names_exist() -> None:
    code = [*PYTHON, *(ROOT / "src").rglob("*.sql")]
    named = {(below(path), name) for path in code for name in re.findall(r"\bdocs/[\w./-]+\.md", path.read_text())}

    assert {(path, name) for path, name in named if not (ROOT / name).exists()} == set()


KINDS_OF_CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_keeps_its_form() -> None:
    title, *rest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    releases = [release.partition("\n") for release in rest]

    assert title.startswith("# Changelog\n")
    assert releases[0][0] == "[Unreleased]"
    dated = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading, _, _ in releases[1:]]
    assert all(dated), "a release is headed `[1.2.3] - 2026-01-31`"
    days = [date.fromisoformat(match[2]) for match in dated if match]
    assert days == sorted(days, reverse=True), "the newest comes first"
    for _, _, body in releases:
        check_changes(body)


def check_changes(body: str) -> None:
    """The changes of one release: by their kinds, each once and in order, and each change a full sentence."""
    before, *parts = re.split(r"^### ", body, flags=re.MULTILINE)
    assert before.strip() == ""
    kinds = [part.partition("\n")[0] for part in parts]
    assert kinds == [kind for kind in KINDS_OF_CHANGES if kind in kinds]
    for part in parts:
        changes = re.split(r"^- ", part.partition("\n")[2].strip(), flags=re.MULTILINE)
        assert changes.pop(0) == "", "only changes stand under a kind"
        for change in changes:
            assert re.fullmatch(r"[A-Z`].*\.", change.strip(), re.DOTALL), f"not a full sentence: {change}"
