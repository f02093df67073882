"""`windlass doctor` on real stores."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from tests.support.processes import open_store
from windlass.cli.main import main


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        open_store(str(tmp_path / "windlass.db")).close()
        return f"sqlite:///{tmp_path / 'windlass.db'}"
    return request.getfixturevalue("migrated_url")


def doctor(url: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--store", url, *words])


def test_a_new_store_has_no_problems(url: str) -> None:
    result = doctor(url)
    found = {each["name"]: each["mark"] for each in json.loads(doctor(url, "--json").stdout)["checks"]}

    assert (result.exit_code, "✗" in result.stdout) == (0, False), result.stdout
    assert {"version", "schema", "durability", "clock", "session", "runs"} <= found.keys()
    assert (found["version"], found["durability"], found["clock"]) == ("✓", "✓", "✓")


def test_a_newer_schema_is_reported_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    open_store(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()

    result = doctor(f"sqlite:///{path}")

    assert (result.exit_code, "✗ schema" in result.stdout, "→ upgrade Windlass" in result.stdout) == (1, True, True)


def test_a_missing_store_is_refused(tmp_path: Path) -> None:
    assert doctor(f"sqlite:///{tmp_path / 'none.db'}").exit_code == 8
