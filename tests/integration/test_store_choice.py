"""Which store is used: flag, environment, windlass.yaml, the app, the default; and conflicts between them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from windlass import App
from windlass.cli.main import main
from windlass.config import InvalidSettings
from windlass.store_choice import StoreChoice, choose_explicit, choose_node_store, choose_store, is_same_store
from windlass.stores.admin import DatabaseMissing
from windlass.wiring import open_store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    return tmp_path


def test_the_first_of_flag_environment_and_file_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_store() == StoreChoice("sqlite:///windlass.db", "default")
    assert choose_explicit() is None

    (folder / "windlass.yaml").write_text("store: sqlite:///file.db\n")
    assert choose_store() == StoreChoice("sqlite:///file.db", "windlass.yaml")

    monkeypatch.setenv("WINDLASS_URL", "sqlite:///env.db")
    assert choose_store() == StoreChoice("sqlite:///env.db", "$WINDLASS_URL")
    assert choose_store("sqlite:///flag.db") == StoreChoice("sqlite:///flag.db", "--store")


def test_an_app_without_a_url_uses_the_store_of_windlass_yaml(folder: Path) -> None:
    (folder / "windlass.yaml").write_text("store: sqlite:///file.db\n")
    app = App()

    @app.task(name="mail")
    def mail() -> None: ...

    mail.enqueue()
    app.close()

    assert (folder / "file.db").exists()
    assert not (folder / "windlass.db").exists()


def test_a_node_serves_the_store_of_its_app_unless_another_is_named() -> None:
    named = StoreChoice("sqlite:///flag.db", "--store")

    assert choose_node_store(None, "shop:app", None) == StoreChoice("sqlite:///windlass.db", "default")
    assert choose_node_store(None, "shop:app", "sqlite:///own.db") == StoreChoice("sqlite:///own.db", "shop:app")
    assert choose_node_store(named, "shop:app", None) == named


def test_a_node_with_another_store_than_its_app_is_refused_with_both_names_and_no_password() -> None:
    named = StoreChoice("postgresql://ann:hunter2@db/shop", "$WINDLASS_URL")

    with pytest.raises(InvalidSettings) as refused:
        choose_node_store(named, "shop:app", "postgresql://bob:hunter3@other/shop")

    text = str(refused.value)
    assert "@db/shop ($WINDLASS_URL)" in text
    assert "@other/shop (shop:app)" in text
    assert "hunter" not in text


@pytest.mark.parametrize("choice", [(StoreChoice("memory:", "--store"), None), (None, "memory:")])
def test_a_node_refuses_a_memory_store(choice: tuple[StoreChoice | None, str | None]) -> None:
    with pytest.raises(InvalidSettings, match="lives in one process"):
        choose_node_store(choice[0], "shop:app", choice[1])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("sqlite:///a.db", "sqlite:///./a.db", True),
        ("sqlite:///a.db", "sqlite:///b.db", False),
        ("postgres://ann@db/shop", "postgresql://bob:pw@db:5432/shop?pooler=transaction", True),
        ("postgresql:///shop?host=/run/pg", "postgresql:///shop?host=/run/pg&port=5432", True),
        ("postgresql:///shop?host=/run/pg", "postgresql:///shop?host=/tmp/pg", False),
        ("postgresql:///shop?host=/run/pg&port=5432", "postgresql:///shop?host=/run/pg&port=5433", False),
        ("postgresql://db/shop", "postgresql://db/other", False),
        ("postgresql://db/shop", "postgresql://db:6432/shop", False),
        ("sqlite:///a.db", "postgresql://db/a.db", False),
    ],
)
def test_two_urls_name_the_same_store_if_they_lead_to_the_same_database(one: str, other: str, same: bool) -> None:
    assert is_same_store(one, other) is same
    assert is_same_store(other, one) is same


def test_a_store_is_not_created_where_it_must_exist(folder: Path) -> None:
    with pytest.raises(DatabaseMissing, match="does not exist"):
        open_store("sqlite:///missing.db", create=False)

    assert not list(folder.iterdir())


def test_a_postgres_database_without_tables_is_not_migrated_by_a_reader(postgres_url: str) -> None:
    with pytest.raises(DatabaseMissing, match="no Windlass tables"):
        open_store(postgres_url, create=False)

    open_store(postgres_url).close()
    open_store(postgres_url, create=False).close()


class Opened(Exception):
    """Raised in place of opening a store."""


def test_the_retention_of_the_settings_reaches_the_store_of_a_node(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "kept_app.py").write_text("import windlass\napp = windlass.App()\n")
    (folder / "windlass.yaml").write_text("app: kept_app:app\nretention: 2h\n")
    kept: list[timedelta] = []

    def record(url: str, *, retention: timedelta) -> None:
        kept.append(retention)
        raise Opened(url)

    monkeypatch.setattr("windlass.cli.worker.open_store", record)
    for flags in ([], ["--retention", "30d"]):
        assert isinstance(CliRunner().invoke(main, ["worker", *flags]).exception, Opened)

    assert kept == [timedelta(hours=2), timedelta(days=30)]


def test_an_invalid_retention_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(main, ["worker", "kept_app:app", "--retention", "1s"])

    assert result.exit_code == 2
    assert "retention=0:00:01 is out of range" in result.stderr
