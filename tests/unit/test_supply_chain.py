"""What we depend on: `make audit` finds planted faults, and `make sbom` writes a sound document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.locks import LOCKS, PROJECT, find_license, read_lock, read_runtime
from tools.sbom import make_sbom

HASH = f"--hash=sha256:{'a' * 64}"


def locked(folder: Path, text: str) -> Path:
    (folder / "some.txt").write_text(text)
    return folder


# The locks


def test_every_lock_is_pinned_by_version_and_hash() -> None:
    assert list(audit.check_locks()) == []
    assert {path.name for path in LOCKS.glob("*.txt")} == {"dev.txt", "docs.txt", "peers.txt", "runtime.txt"}
    assert len(read_lock(LOCKS / "runtime.txt")[0]) > 20


@pytest.mark.parametrize(
    "line",
    [
        "click",
        f"click>=8 {HASH}",
        "click==8.1",
        "click==8.1 --hash=md5:0123",
        f"click==8.1 {HASH} --hash=sha256:short",
        f"git+https://example.org/click.git {HASH}",
    ],
)
def test_a_requirement_without_version_or_hash_is_found(tmp_path: Path, line: str) -> None:
    sound = f"anyio==4.1 ; python_version < '3.12' \\\n    {HASH} \\\n    {HASH}\n    # via starlette\n"

    [fault] = audit.check_locks(locked(tmp_path, sound + line))

    assert fault.startswith(f"some.txt: {line.split(' --hash', maxsplit=1)[0]}")


def test_a_package_outside_the_locks_is_found(tmp_path: Path) -> None:
    lines = "\n".join(
        f"{each.name}=={each.version} {HASH}"
        for path in LOCKS.glob("*.txt")
        for each in read_lock(path)[0]
        if each.name != "click"
    )
    version = distribution("click").version

    faults = list(audit.check_environment(locked(tmp_path, f"{lines}\nclick==0.1 {HASH}")))

    assert f"click {version} is installed, and the locks have 0.1" in faults


def test_what_is_installed_and_needed_is_in_the_runtime_lock() -> None:
    required = {name for name, required in read_runtime().items() if required}

    assert required <= {each.name for each in read_lock(LOCKS / "runtime.txt")[0]}
    assert read_runtime()["psycopg"] is False, "only with the extra `postgres`"


# What is installed


def test_a_changed_file_and_a_missing_file_are_found(tmp_path: Path) -> None:
    info = tmp_path / "thing-1.dist-info"
    info.mkdir()
    (tmp_path / "kept.py").write_text("")
    (tmp_path / "changed.py").write_text("import os")
    empty = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    (info / "METADATA").write_text("Name: thing\nVersion: 1\n")
    (info / "RECORD").write_text(
        f"kept.py,{empty},0\nchanged.py,{empty},0\nmissing.py,{empty},0\nthing-1.dist-info/RECORD,,\n"
    )

    assert list(audit.find_changed(PathDistribution(info))) == ["changed.py", "missing.py"]


def test_versions_with_known_faults_are_found(tmp_path: Path) -> None:
    faults = list(audit.check_versions(locked(tmp_path, f"apsw==3.51.2.0 {HASH}\nh11==0.14.0 {HASH}\nclick==8 {HASH}")))

    assert [fault.split(":")[1] for fault in faults] == [" apsw 3.51.2.0", " h11 0.14.0"]
    assert list(audit.check_versions()) == []


def test_users_get_only_allowed_licenses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(audit.check_licenses()) == []

    monkeypatch.setattr(audit, "ALLOWED_LICENSES", audit.ALLOWED_LICENSES - {"LGPL-3.0-only"})
    assert [fault.split()[0] for fault in audit.check_licenses()] == ["psycopg", "psycopg-binary", "psycopg-pool"]


@pytest.mark.parametrize(
    ("printed", "status", "sound"),
    [("No known vulnerabilities found", 0, True), ("Name Version ID\nclick 8 CVE-1", 1, False), ("", 1, True)],
)
def test_pip_audit_counts_only_if_it_could_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, status: int, sound: bool
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\necho '{printed}'\necho 'no network' >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert audit.run_pip_audit() is sound


# The bill of materials


@pytest.fixture(scope="module")
def sbom() -> Mapping[str, Any]:
    return make_sbom()


def test_the_document_is_cyclonedx(sbom: Mapping[str, Any]) -> None:
    """The rules of its JSON schema for the parts that we write."""
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", sbom["serialNumber"])
    everything = [sbom["metadata"]["component"], *sbom["components"]]
    for each in everything:
        assert each["type"] in ("application", "library")
        assert each["bom-ref"] == each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each["name"]), "purl has canonical names"
        [license] = each["licenses"]
        assert license.keys() in ({"expression"}, {"license"})
    for each in sbom["components"]:
        assert each["scope"] in ("required", "optional")
        [reference] = each["externalReferences"]
        assert reference["type"] == "distribution"
        hashes = reference["hashes"]
        assert all(each["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", each["content"]) for each in hashes)
        assert hashes
    refs = [each["bom-ref"] for each in everything]
    assert len(set(refs)) == len(refs)
    assert [each["ref"] for each in sbom["dependencies"]] == refs
    assert {needed for each in sbom["dependencies"] for needed in each["dependsOn"]} <= set(refs)


def test_the_document_has_what_is_installed_and_is_always_the_same(sbom: Mapping[str, Any]) -> None:
    names = {each["name"]: each for each in sbom["components"]}

    assert names.keys() == read_runtime().keys()
    assert all(distribution(name).version == each["version"] for name, each in names.items())
    assert names["apsw"]["scope"] == "required"
    assert names["psycopg-binary"]["scope"] == "optional"
    root = sbom["dependencies"][0]
    assert names["starlette"]["purl"] in root["dependsOn"]
    assert make_sbom() == sbom


def test_our_own_license_is_known() -> None:
    assert find_license(distribution(PROJECT)) == "Apache-2.0"
