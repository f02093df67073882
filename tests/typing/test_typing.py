"""The types of the public API: correct uses pass, each wrong use is exactly one error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SAMPLES = [HERE / "good.py", HERE / "bad.py"]


def marked() -> dict[str, Counter[int]]:
    lines = SAMPLES[1].read_text().splitlines()
    return {"bad.py": Counter(number for number, line in enumerate(lines, 1) if line.endswith("# wrong"))}


def mypy(cache: Path) -> dict[str, Counter[int]]:
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={cache}", "--no-pretty"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, SAMPLES)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert not run.stderr, run.stderr
    found = re.findall(r"^.*?(\w+\.py):(\d+): error: ", run.stdout, re.MULTILINE)
    return _by_file((name, int(line)) for name, line in found)


def basedpyright(cache: Path) -> dict[str, Counter[int]]:
    # Its own "strict" is what a user of pyright has; the repository's further rules are not the API's business.
    settings = {"typeCheckingMode": "strict", "include": [str(path) for path in SAMPLES], "pythonVersion": "3.11"}
    project = cache / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    program = Path(sys.executable).with_name("basedpyright")
    run = subprocess.run(
        [program, "--outputjson", "--project", project, "--pythonpath", sys.executable],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    errors = [found for found in json.loads(run.stdout)["generalDiagnostics"] if found["severity"] == "error"]
    return _by_file((Path(found["file"]).name, found["range"]["start"]["line"] + 1) for found in errors)


def _by_file(found: Iterable[tuple[str, int]]) -> dict[str, Counter[int]]:
    counted: dict[str, Counter[int]] = {}
    for name, line in found:
        counted.setdefault(name, Counter())[line] += 1
    return counted


@pytest.mark.parametrize("checker", [mypy, basedpyright], ids=["mypy", "basedpyright"])
def test_correct_uses_pass_and_each_wrong_use_is_one_error(
    checker: Callable[[Path], dict[str, Counter[int]]], tmp_path: Path
) -> None:
    assert checker(tmp_path) == marked()
