from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from windlass.config import FileSettings, InvalidSettings, NodeSettings, PoolSettings, read_settings


def test_every_fault_is_named_at_once() -> None:
    pools = (
        PoolSettings(name="a b", size=-1),
        PoolSettings(name="c", queues=(), threads=0),
        PoolSettings(name="c", weights=(1, 2), recycle_after=0, memory_limit=5, min=3, max=2),
    )
    settings = NodeSettings(app="shop:app", pools=pools, session_ttl=timedelta(0))

    with pytest.raises(InvalidSettings) as refused:
        settings.check()

    faults = [
        "a b",
        "size=-1",
        "queues",
        "threads=0",
        "weights",
        "recycle_after",
        "memory_limit",
        "min=3",
        "session_ttl",
    ]
    assert [fault for fault in [*faults, "pools.c stands twice"] if fault not in str(refused.value)] == []


def test_the_defaults_are_sound() -> None:
    NodeSettings(app="shop:app").check()


def test_a_file_names_its_pools_and_times_as_people_write_them(tmp_path: Path) -> None:
    file = tmp_path / "windlass.yaml"
    file.write_text("app: shop:app\nsession_ttl: 5s\ndrain_timeout: 0\npools:\n  mail: {size: 3}\n  cpu:\n")

    settings = read_settings(file)

    assert settings == FileSettings(
        app="shop:app",
        session_ttl=timedelta(seconds=5),
        drain_timeout=None,
        pools=(PoolSettings(name="mail", queues=("mail",), size=3), PoolSettings(name="cpu", queues=("cpu",))),
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour: red", "colour"),
        ("pools: {mail: {sise: 3}}", "sise"),
        ("pools: {mail: {size: many}}", "size"),
        ("pools: {mail: 4}", "pools"),
        ("[1, 2", "windlass.yaml"),
        ("session_ttl: soon", "session_ttl"),
        ("just words", "object"),
    ],
)
def test_what_a_file_must_not_say_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "windlass.yaml"
    file.write_text(text)

    with pytest.raises(ValueError, match=named):
        read_settings(file)


def test_a_file_that_is_not_there_is_an_error_only_when_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert read_settings() == FileSettings()
    with pytest.raises(InvalidSettings, match=r"other\.yaml cannot be read"):
        read_settings(tmp_path / "other.yaml")
