"""Check recordings: `python -m tests.checker FOLDER...` reads every `*.jsonl`, and exits with 1 if a rule broke."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checker.records import Recording
from tests.checker.report import check


def main(arguments: list[str]) -> int:
    """Check what these files and folders contain. Return 0 if no rule was broken."""
    given = [Path(argument) for argument in arguments]
    paths = [path for one in given for path in (sorted(one.glob("*.jsonl")) if one.is_dir() else [one])]
    report = check(Recording.read(paths))
    sys.stdout.write(f"{report}\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
