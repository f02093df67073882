"""Reads the locks in requirements/ and the licenses of installed packages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path

from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "requirements"
PROJECT = "windlass-tasks"

_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_LICENSES: Mapping[str, str] = {
    "any-OSI": "any-OSI",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""Identifiers of licenses that packages name in other words. In those that we use, "BSD License" has three clauses.
apsw may have any that OSI approves."""


class Locked(Struct, frozen=True):
    """One line of a lock."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> tuple[list[Locked], list[str]]:
    """Return the packages of a lock, and the lines that are not pinned by version and hash.

    A package may be there more than once, in versions for different versions of Python.
    """
    found: list[Locked] = []
    faults: list[str] = []
    text = re.sub(r"(?m)^\s*#.*\n?", "", path.read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        match, hashes = _PINNED.match(line), tuple(_HASH.findall(line))
        if match is None or not hashes or line.count("--hash=") != len(hashes):
            faults.append(line.split(" --hash")[0])
            continue
        found.append(Locked(canonicalize_name(match["name"]), match["version"], hashes))
    return found, faults


def read_runtime() -> dict[str, bool]:
    """Return what the package and its extras need here, by name: True if it is needed without an extra.

    Packages that only other platforms need are left out.
    """
    found: dict[str, bool] = {}
    waiting = [(PROJECT, "", True)]
    waiting += [(PROJECT, extra, False) for extra in distribution(PROJECT).metadata.get_all("Provides-Extra") or []]
    seen: set[tuple[str, str, bool]] = set()
    while waiting:
        name, extra, required = here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        found[name] = found.get(name, False) or required
        for text in distribution(name).requires or []:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(wanted.name), each, required) for each in ("", *wanted.extras)]
    return {name: found[name] for name in sorted(found) if name != PROJECT}


def find_license(installed: Distribution) -> str:
    """Return the SPDX expression of a package's license; empty if it names none."""
    metadata = installed.metadata
    names = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")
    ]
    said = metadata.get("License-Expression") or metadata.get("License") or (names[0] if names else "")
    return _LICENSES.get(said, said)
