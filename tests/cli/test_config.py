"""`windlass config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import main

FILE = """
app: shop:app
store: postgresql://u:filesecret@db/shop
drain_timeout: 1m
pools:
  mail:
    queues: [mail, news]
    max: 4
    scale:
      wait: 2s
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    return tmp_path


def show(*words: str, **env: str) -> Result:
    return CliRunner().invoke(main, ["config", "show", *words], env=env)


def settings(*words: str, **env: str) -> dict[str, tuple[Any, str]]:
    """Return the value and the origin of each setting."""
    result = show("--json", *words, **env)
    assert result.exit_code == 0, result.output
    return {each["name"]: (each["value"], each["origin"]) for each in json.loads(result.stdout)["settings"]}


def test_settings_have_defaults() -> None:
    found = settings()

    assert found["store"] == ("sqlite:///windlass.db", "default")
    assert found["session_ttl"] == ("15s", "default")
    assert found["pools.default.queues"] == (["default"], "default")
    assert (found["name"], found["pools.default.min"]) == ((None, "default"), (1, "default"))
    assert {origin for _, origin in found.values()} == {"default"}


def test_each_setting_has_its_origin(folder: Path) -> None:
    (folder / "windlass.yaml").write_text(FILE)

    found = settings(WINDLASS_TZ="Europe/Berlin")

    assert found["app"] == ("shop:app", "windlass.yaml")
    assert found["drain_timeout"] == ("1m", "windlass.yaml")
    assert found["session_ttl"][1] == "default"
    assert found["pools.mail.queues"] == (["mail", "news"], "windlass.yaml")
    assert found["pools.mail.min"] == (1, "default")
    assert (found["pools.mail.scale.wait"][1], found["pools.mail.max"]) == ("windlass.yaml", (4, "windlass.yaml"))
    assert found["WINDLASS_TZ"] == ("Europe/Berlin", "$WINDLASS_TZ")


def test_an_option_overrides_the_environment_which_overrides_the_file(folder: Path) -> None:
    (folder / "windlass.yaml").write_text(FILE)

    assert settings("--store", "memory:", WINDLASS_URL="sqlite:///e.db")["store"] == ("memory:", "--store")
    assert settings(WINDLASS_URL="sqlite:///e.db")["store"] == ("sqlite:///e.db", "$WINDLASS_URL")
    assert settings()["store"] == ("postgresql://u:[redacted]@db/shop", "windlass.yaml")


def test_passwords_are_redacted(folder: Path) -> None:
    (folder / "windlass.yaml").write_text(FILE)
    env = {"WINDLASS_URL": "postgresql://u:envsecret@db/x", "WINDLASS_LISTEN_URL": "postgresql://u:listensecret@db/x"}

    output = show("--origin", **env).output + show(**env).output + show().output

    assert "secret" not in output


def test_the_origin_column_is_optional() -> None:
    assert show().stdout.splitlines()[0].split() == ["setting", "value"]
    assert show("--origin").stdout.splitlines()[0].split() == ["setting", "value", "origin"]


def test_an_invalid_file_is_refused(folder: Path) -> None:
    (folder / "windlass.yaml").write_text("colour: blue\n")

    result = show()

    assert (result.exit_code, "colour" in result.stderr) == (2, True)


def test_commands_use_the_store_of_the_file(folder: Path) -> None:
    (folder / "windlass.yaml").write_text("store: sqlite:///tasks.db\n")

    result = CliRunner().invoke(main, ["enqueue", "work", "--unchecked"])

    assert (result.exit_code, (folder / "tasks.db").exists()) == (0, True), result.output
    assert json.loads(CliRunner().invoke(main, ["db", "status", "--json"]).stdout)["tasks"] == {"runnable": 1}
    assert not (folder / "windlass.db").exists()
