"""Checks what is installed and locked: `make audit`. Everything but pip-audit works without a network.

- Every requirement of every lock has one version and hashes.
- The environment has only packages of the locks, in the locked version.
- No file of an installed package was changed after its installation.
- What users install has a license that we allow.
- No version with a known fault that concerns us is locked, and SQLite is none with the WAL-reset race.
- pip-audit knows of no vulnerability, if it is installed and its database can be reached.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import apsw
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.locks import LOCKS, PROJECT, find_license, read_lock, read_runtime

ALLOWED_LICENSES = frozenset(
    {
        "any-OSI",
        "Apache-2.0",
        "Apache-2.0 AND BSD-2-Clause",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "LGPL-3.0-only",  # psycopg, which is imported and not changed
        "MIT",
        "PSF-2.0",
    }
)
OF_VENV = frozenset({"pip", "setuptools"})
"""What `python -m venv` puts into an environment."""
KNOWN_BAD: Mapping[str, Mapping[str, str]] = {
    "apsw": {"<3.51.3.0": "carries an SQLite that can corrupt a database when its WAL is reset"},
    "h11": {"<0.16.0": "CVE-2025-43859: accepts broken chunked bodies, which proxies read differently"},
    "jinja2": {"<3.1.6": "CVE-2025-27516: a template can leave its sandbox"},
    "pyyaml": {"<5.4": "CVE-2020-14343: loading a file can run code"},
    "starlette": {
        "<0.47.2": "CVE-2025-54121: a large upload blocks the event loop",
        "<0.49.1": "CVE-2025-62727: a Range header takes quadratic time",
    },
}
"""Versions with faults that concern us, by package. pip-audit has the list of all vulnerabilities."""
SQLITE = (3, 51, 3)
"""The first SQLite without the WAL-reset race."""


def check_locks(folder: Path = LOCKS) -> Iterator[str]:
    """Find requirements without one version or without hashes."""
    for path in sorted(folder.glob("*.txt")):
        yield from (f"{path.name}: {line} is not pinned by version and hash" for line in read_lock(path)[1])


def check_environment(folder: Path = LOCKS) -> Iterator[str]:
    """Find installed packages that no lock has, or has in another version."""
    locked: dict[str, set[str]] = {}
    for path in folder.glob("*.txt"):
        for each in read_lock(path)[0]:
            locked.setdefault(each.name, set()).add(each.version)
    for installed in distributions():
        name = canonicalize_name(installed.name)
        if name == PROJECT or name in OF_VENV:
            continue
        if installed.version not in locked.get(name, set()):
            versions = ", ".join(sorted(locked.get(name, ()))) or "none"
            yield f"{name} {installed.version} is installed, and the locks have {versions}"


def check_files() -> Iterator[str]:
    """Find installed files that differ from what their package recorded."""
    for installed in distributions():
        yield from (f"{installed.name}: {path} was changed" for path in find_changed(installed))


def find_changed(installed: Distribution) -> Iterator[str]:
    """Yield the files of a package that are missing or whose hash is not the recorded one."""
    for file in installed.files or []:
        if file.hash is None or file.hash.mode != "sha256":
            continue  # RECORD itself, and what was compiled at installation.
        path = Path(str(file.locate()))
        found = base64.urlsafe_b64encode(sha256(path.read_bytes()).digest()).rstrip(b"=") if path.is_file() else b""
        if found.decode() != file.hash.value:
            yield str(file)


def check_licenses() -> Iterator[str]:
    """Find licenses that we do not allow among what users install."""
    for name in read_runtime():
        found = find_license(distribution(name))
        if found not in ALLOWED_LICENSES:
            yield f"{name} has the license {found or 'none'!r}, which is not in ALLOWED_LICENSES"


def check_versions(folder: Path = LOCKS) -> Iterator[str]:
    """Find locked versions with a known fault, and such an SQLite."""
    for path in sorted(folder.glob("*.txt")):
        for locked in read_lock(path)[0]:
            for versions, fault in KNOWN_BAD.get(locked.name, {}).items():
                if locked.version in SpecifierSet(versions):
                    yield f"{path.name}: {locked.name} {locked.version}: {fault}"
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SQLITE:
        yield f"SQLite {apsw.sqlite_lib_version()} can corrupt a database when its WAL is reset"


CHECKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "every requirement is pinned by version and hash": check_locks,
    "the environment has only locked packages": check_environment,
    "no installed file was changed": check_files,
    "licenses are allowed": check_licenses,
    "no version has a known fault that concerns us": check_versions,
}


def run_pip_audit() -> bool:
    """Run pip-audit if that is possible here. Return False if it found a vulnerability."""
    program = shutil.which("pip-audit")
    if program is None:
        print("- vulnerabilities were not looked up: pip-audit is not installed")
        return True
    command = [program, "--disable-pip", "--require-hashes", "--requirement", str(LOCKS / "runtime.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "Name" not in done.stdout:  # It prints a table of what it has found, if it came that far.
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"- vulnerabilities were not looked up: pip-audit could not reach its database ({reason})")
        return True
    print(("✓" if done.returncode == 0 else "✗") + " pip-audit\n" + done.stdout.rstrip())
    return done.returncode == 0


def main() -> None:
    """Run all checks, and exit with status 1 if one finds something."""
    sound = True
    for name, check in CHECKS.items():
        faults = list(check())
        sound = sound and not faults
        print(f"{'✗' if faults else '✓'} {name}")
        for fault in faults:
            print(f"    {fault}")
    if not run_pip_audit() or not sound:
        sys.exit(1)


if __name__ == "__main__":
    main()
