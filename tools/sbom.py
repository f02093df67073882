"""Writes a bill of materials: what the package and its extras bring with them, as CycloneDX JSON.

Names, versions and hashes come from the locks, licenses and dependencies from the installed packages. The same locks
give the same document, so it can be compared with that of another release.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.locks import LOCKS, PROJECT, Locked, find_license, read_lock, read_runtime


def make_sbom() -> dict[str, Any]:
    """Return the document."""
    # This lock contains the runtime lock, version for version, and all extras.
    locked = {(each.name, each.version): each for each in read_lock(LOCKS / "dev.txt")[0]}
    own = distribution(PROJECT)
    components = [
        _component(locked[name, distribution(name).version], required=required)
        for name, required in read_runtime().items()
    ]
    root = f"pkg:pypi/{PROJECT}@{own.version}"
    refs = {PROJECT: root, **{each["name"]: each["bom-ref"] for each in components}}
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": PROJECT,
                "version": own.version,
                "purl": root,
                "licenses": _licenses(find_license(own)),
            }
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": _needs(name, refs)} for name, ref in refs.items()],
    }
    serial = uuid5(NAMESPACE_URL, msgspec.json.encode(body, order="deterministic").decode())
    return {"serialNumber": f"urn:uuid:{serial}", **body}


def _component(locked: Locked, *, required: bool) -> dict[str, Any]:
    purl = f"pkg:pypi/{locked.name}@{locked.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": locked.name,
        "version": locked.version,
        "scope": "required" if required else "optional",
        "licenses": _licenses(find_license(distribution(locked.name))),
        "purl": purl,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{locked.name}/{locked.version}/",
                "hashes": [{"alg": "SHA-256", "content": each} for each in locked.hashes],
            }
        ],
    }


def _licenses(expression: str) -> list[dict[str, Any]]:
    if expression == "any-OSI":
        return [{"license": {"name": expression}}]
    return [{"expression": expression}] if " " in expression else [{"license": {"id": expression}}]


def _needs(name: str, refs: Mapping[str, str]) -> list[str]:
    wanted = {canonicalize_name(Requirement(text).name) for text in distribution(name).requires or []}
    return sorted(refs[each] for each in wanted if each in refs)


def main() -> None:
    """Write the document to the file that is named, or to standard output."""
    text = msgspec.json.format(msgspec.json.encode(make_sbom()), indent=2).decode() + "\n"
    if len(sys.argv) < 2:
        print(text, end="")
        return
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
