"""`windlass completion`: the scripts of the shells, and what they complete."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Windlass
from tests.support.builders import submit_one
from windlass.cli import completion
from windlass.cli.main import main
from windlass.stores.protocol import Store


def complete(url: str, *words: str) -> list[str]:
    """Return the completions of the last of these words."""
    env = {
        "WINDLASS_URL": url,
        "_WINDLASS_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["windlass", *words]),
        "COMP_CWORD": str(len(words)),
    }
    output = CliRunner().invoke(main, [], env=env, prog_name="windlass").stdout
    return [line.partition(",")[2] for line in output.splitlines() if line]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that is set only after the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(windlass: Windlass, shell: str) -> None:
    result = windlass("completion", shell)

    assert (result.exit_code, "_WINDLASS_COMPLETE" in result.stdout) == (0, True)
    assert f"windlass completion {shell}" in result.stderr


def test_an_unknown_shell_is_refused(windlass: Windlass) -> None:
    assert windlass("completion", "tcsh").exit_code == 2


def test_commands_and_names_in_the_store_are_completed(url: str, store: Store) -> None:
    id = str(submit_one(store, queue="mail"))
    submit_one(store, queue="bulk")

    assert complete(url, "ten") == ["tenants"]
    assert complete(url, "queues", "pause", "ma") == ["mail"]
    assert complete(url, "queues", "pause", "x") == []
    assert id in complete(url, "why", id[:4])
    assert complete(url, "enqueue", "m") == ["mail"]
    assert complete(url, "cron", "pause", "") == ["nightly"]
    store.put_control("pool", "bulk", "{}", expect=0)
    assert complete(url, "pool", "pause", "b") == ["bulk"]


def test_completion_does_not_create_a_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("empty") / "none.db"

    assert complete(f"sqlite:///{path}", "queues", "pause", "m") == []
    assert not path.exists()


def test_completion_does_not_wait_for_a_slow_store(monkeypatch: pytest.MonkeyPatch, never: threading.Event) -> None:
    def slow(url: str | None) -> Store:
        never.wait()
        raise AssertionError(url)

    monkeypatch.setattr(completion, "_open", slow)
    monkeypatch.setattr(completion, "TIMEOUT_SECONDS", 0.01)

    assert complete("memory:", "queues", "pause", "m") == []
