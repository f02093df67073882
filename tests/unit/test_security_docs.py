"""The table of security defaults in the docs names tests that exist, for every default."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFAULTS = [f"S{number}" for number in range(1, 19)]
ROW = re.compile(r"^\| (S\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows() -> dict[str, tuple[str, str]]:
    return {name: (text, tests) for name, text, tests in ROW.findall((ROOT / "docs/security.md").read_text())}


def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_default_is_in_the_table_in_one_sentence() -> None:
    assert list(rows()) == DEFAULTS
    assert [name for name, (text, _) in rows().items() if not text.endswith(".")] == []


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_tests_of_a_default_exist(name: str) -> None:
    named = TEST.findall(rows()[name][1])

    assert named, "a default without a test is a wish"
    for file, function in named:
        known = functions(ROOT / file)
        assert function in known if function else any(each.startswith("test_") for each in known), f"{file}::{function}"


def test_the_policy_names_tests_that_exist() -> None:
    for file, function in TEST.findall((ROOT / "SECURITY.md").read_text()):
        assert not function or function in functions(ROOT / file), f"{file}::{function}"
