from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.autoscale.settings import Settings, Window
from windlass.config import (
    BudgetSettings,
    FileSettings,
    InvalidSettings,
    NodeSettings,
    PoolSettings,
    check_orders,
    default_max,
    read_settings,
)
from windlass.core.ordering import Queue, Strategy
from windlass.stores.memory import MemoryStore


def test_all_problems_are_reported_together() -> None:
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
    assert [fault for fault in [*faults, "pools.c is defined twice"] if fault not in str(refused.value)] == []


def test_the_defaults_are_valid() -> None:
    NodeSettings(app="shop:app").check()


def test_a_file_has_pools_by_name_and_durations_as_text(tmp_path: Path) -> None:
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
        ("pools: {mail: {scale: {wait: soon}}}", r"pools\.mail\.scale\.wait"),
        ("pools: {mail: {scale: {wait: true}}}", r"pools\.mail\.scale\.wait"),
        ("pools: {mail: {scale: {wait: .nan}}}", r"pools\.mail\.scale\.wait"),
        ("pools: {mail: {scale: {wiat: 2s}}}", r"in pools\.mail\.scale: wiat"),
        ("pools: {mail: {scale: {deciders: slo}}}", "deciders"),
        ("pools: {mail: {idle_after: later}}", r"pools\.mail\.idle_after"),
        ("budget: {workers: many}", "workers"),
        ("budget: {slots: 3}", "slots"),
        ("a: " + "[" * 3_000, "recursion"),
    ],
)
def test_invalid_contents_of_a_file_are_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "windlass.yaml"
    file.write_text(text)

    with pytest.raises(ValueError, match=named):
        read_settings(file)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """A running node reads the file repeatedly; its contents must never end the node."""
    file = tmp_path / "windlass.yaml"
    file.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidSettings, match=r"windlass\.yaml"):
        read_settings(file)


def test_scale_settings_accept_durations_as_text(tmp_path: Path) -> None:
    file = tmp_path / "windlass.yaml"
    file.write_text(
        "budget: {workers: 20, memory: 2147483648}\n"
        "pools:\n"
        "  mail:\n"
        "    {min: 0, max: 12, priority: 3, idle_after: 1m30s,\n"
        "     scale: {wait: 500ms, late: 0.05, idle: 10m, service: 2, deciders: [slo, due]}}\n"
        "  cpu: {min: 2, idle_after: 0}\n"
    )

    settings = read_settings(file)

    mail, cpu = settings.pools
    assert mail.scale == Settings(wait=0.5, late=0.05, idle=600.0, service=2.0, deciders=("slo", "due"))
    assert (mail.min_workers, mail.max_workers, mail.override_max, mail.priority) == (0, 12, 12, 3)
    assert (mail.idle_after, cpu.idle_after) == (timedelta(seconds=90), None)
    assert (cpu.min_workers, cpu.max_workers) == (2, default_max())
    assert settings.budget == BudgetSettings(workers=20, memory=2 << 30)


def test_a_pool_with_a_fixed_size_can_be_overridden_up_to_max() -> None:
    fixed = PoolSettings(size=3, max=5)
    none = PoolSettings(size=0, max=5)

    assert (fixed.min_workers, fixed.max_workers, fixed.override_max) == (3, 3, 5)
    assert (none.min_workers, none.max_workers, none.override_max) == (0, 0, 5)
    assert PoolSettings(size=100, max=5).override_max == 100


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (PoolSettings(min=-1), "min=-1"),
        (PoolSettings(max=1_001), "max=1001"),
        (PoolSettings(scale=Settings(wait=0.0)), r"pools\.default\.scale\.wait=0"),
        (PoolSettings(scale=Settings(late=1.0)), r"scale\.late=1"),
        (PoolSettings(scale=Settings(service=0.0)), r"scale\.service=0"),
        (PoolSettings(scale=Settings(idle=-1.0)), r"scale\.idle=-1"),
        (PoolSettings(scale=Settings(deciders=("oracle",))), r"scale\.deciders: oracle"),
        (PoolSettings(scale=Settings(deciders=())), r"scale\.deciders: none"),
        (PoolSettings(scale=Settings(windows=(Window(begin=-1, end=5, min=1),))), r"scale\.windows: begin=-1"),
        (PoolSettings(scale=Settings(min=3)), r"use pools\.default\.min"),
        (PoolSettings(idle_after=timedelta(0)), "idle_after"),
    ],
)
def test_invalid_scale_settings_are_named(settings: PoolSettings, named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        NodeSettings(app="shop:app", pools=(settings,)).check()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"budget": BudgetSettings(workers=0)}, r"budget\.workers=0"),
        ({"budget": BudgetSettings(memory=5)}, r"budget\.memory=5"),
        ({"drain_timeout": timedelta(seconds=-5)}, "drain_timeout=-5s"),
        ({"pools": ()}, "pools is empty"),
    ],
)
def test_invalid_node_settings_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        NodeSettings(app="shop:app", **changes).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"app": "other:app"},
        {"name": "other"},
        {"tags": ("gpu",)},
        {"session_ttl": timedelta(seconds=5)},
        {"hide_store_url": True},
        {"retention": timedelta(days=1)},
        {"pools": (PoolSettings(name="mail"), PoolSettings(name="post"))},
        {"pools": (PoolSettings(name="post"),)},
    ],
)
def test_changes_that_need_a_restart_are_refused(changes: dict[str, Any]) -> None:
    running = NodeSettings(app="shop:app", pools=(PoolSettings(name="mail"),))

    with pytest.raises(InvalidSettings, match="cannot change while a node runs") as refused:
        running.changes(NodeSettings(**{"app": "shop:app", "pools": running.pools, **changes}))

    [field] = changes
    assert field in str(refused.value)


def test_changes_list_the_old_and_the_new_value() -> None:
    running = NodeSettings(app="shop:app", pools=(PoolSettings(name="mail", max=8),))
    other = NodeSettings(
        app="shop:app",
        pools=(PoolSettings(name="mail", max=12, queues=("mail", "news"), scale=Settings(wait=2.0)),),
        budget=BudgetSettings(workers=9),
        drain_timeout=timedelta(seconds=3),
    )

    changes = running.changes(other)

    assert running.changes(running) == []
    listed = " ".join(changes)
    fields = ["pools.mail.max: 8 → 12", "'news'", "wait=2.0", "budget: ", "workers=9", "drain_timeout: "]
    assert [field for field in fields if field not in listed] == []


def test_a_missing_file_is_an_error_only_if_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert read_settings() == FileSettings()
    with pytest.raises(InvalidSettings, match=r"Cannot read .*other\.yaml"):
        read_settings(tmp_path / "other.yaml")


def test_weights_are_refused_with_order_deadline() -> None:
    pool = PoolSettings(queues=("a", "b"), weights=(1, 2), order="deadline")

    [fault] = pool.faults()

    assert fault.startswith("pools.default.weights has no effect with order=deadline")


def test_order_deadline_needs_queues_with_the_strategy_deadline() -> None:
    store = MemoryStore()
    pools = [PoolSettings(queues=("a", "b"), order="deadline"), PoolSettings(name="other", queues=("c",))]
    store.configure(Queue(name="a", strategy=Strategy.DEADLINE))

    with pytest.raises(InvalidSettings, match="the queue b has the strategy priority"):
        check_orders(pools, store)
    store.configure(Queue(name="b", strategy=Strategy.DEADLINE))
    check_orders(pools, store)
