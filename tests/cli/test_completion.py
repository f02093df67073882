"""`windlass completion`: what a shell is told, and what it is offered."""

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


def offered(url: str, *words: str) -> list[str]:
    """What a shell would show after these words, the last of them begun."""
    env = {
        "WINDLASS_URL": url,
        "_WINDLASS_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["windlass", *words]),
        "COMP_CWORD": str(len(words)),
    }
    said = CliRunner().invoke(main, [], env=env, prog_name="windlass").stdout
    return [line.partition(",")[2] for line in said.splitlines() if line]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Something that is not there until the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(windlass: Windlass, shell: str) -> None:
    said = windlass("completion", shell)

    assert (said.exit_code, "_WINDLASS_COMPLETE" in said.stdout) == (0, True)
    assert f"windlass completion {shell}" in said.stderr


def test_another_shell_is_refused(windlass: Windlass) -> None:
    assert windlass("completion", "tcsh").exit_code == 2


def test_commands_and_names_from_the_store_are_offered(url: str, store: Store) -> None:
    id = str(submit_one(store, queue="mail"))
    submit_one(store, queue="bulk")

    assert offered(url, "ten") == ["tenants"]
    assert offered(url, "queues", "pause", "ma") == ["mail"]
    assert offered(url, "queues", "pause", "x") == []
    assert id in offered(url, "why", id[:4])
    assert offered(url, "enqueue", "m") == ["mail"]
    assert offered(url, "cron", "pause", "") == ["nightly"]
    store.put_control("pool", "bulk", "{}", expect=0)
    assert offered(url, "pool", "pause", "b") == ["bulk"]


def test_without_a_store_nothing_is_offered_and_none_is_made(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("empty") / "none.db"

    assert offered(f"sqlite:///{path}", "queues", "pause", "m") == []
    assert not path.exists()


def test_a_store_that_is_slow_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, never: threading.Event) -> None:
    def slow(url: str | None) -> Store:
        never.wait()
        raise AssertionError(url)

    monkeypatch.setattr(completion, "_opened", slow)
    monkeypatch.setattr(completion, "PATIENCE", 0.01)

    assert offered("memory:", "queues", "pause", "m") == []
