"""`windlass workflows`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import GAVE_UP, SECOND, a_session, a_task, report, state_of
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import TaskId
from windlass.stores.protocol import Store


@pytest.fixture
def shop(store: Store) -> dict[str, TaskId]:
    """An order: charge, then pack and check, then ship after both, then thank."""
    after = {"charge": [], "check": ["charge"], "pack": ["charge"], "ship": ["pack", "check"], "thank": ["ship"]}
    batch = [a_task(key=key, workflow="order-7", prerequisites=before) for key, before in after.items()]
    return dict(zip(after, (receipt.id for receipt in store.submit(batch)), strict=True))


@pytest.fixture
def half_done(store: Store, clock: ManualClock, shop: dict[str, TaskId]) -> dict[str, TaskId]:
    """Charge took 2 s after 1 s of waiting, check 1 s, pack 4 s; ship runs since 1 s."""
    session = a_session(store, ttl=60 * SECOND)
    clock.advance(SECOND)
    [charge] = store.claim(session, ["default"], 1)
    clock.advance(2 * SECOND)
    store.settle([(charge.lease, COMPLETED)])
    claims = {claim.task.key: claim.lease for claim in store.claim(session, ["default"], 5)}
    clock.advance(SECOND)
    store.settle([(claims["check"], COMPLETED)])
    clock.advance(3 * SECOND)
    store.settle([(claims["pack"], COMPLETED)])
    [_] = store.claim(session, ["default"], 5)
    clock.advance(SECOND)
    return shop


def test_workflows_are_listed(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    assert windlass("workflows", "ls").stdout.splitlines() == [
        "workflow  tenant   tasks  states                            submitted",
        "order-7   default      5  1 waiting, 1 leased, 3 completed  13:00:00 +01:00 · 8 s ago",
    ]
    [row] = lines(windlass("workflows", "ls", "--jsonl"))
    assert (row["workflow"], row["tasks"]["completed"]) == ("order-7", 3)
    assert read(windlass("workflows", "ls", "--tenant", "other", "--json")) == []


def test_a_graph_is_a_tree_with_its_critical_path_marked(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    said = windlass("workflows", "graph", "order-7")

    assert said.stdout.splitlines() == [
        "order-7  tenant default  ◇ 1, ▶ 1, ✓ 3",
        "submitted 13:00:00 +01:00 · 8 s ago, still open, 8 s in all",
        "✓ charge  ◆  waited 1 s, worked 2 s",
        "├─ ✓ check  waited 0 s, worked 1 s",
        "└─ ✓ pack  ◆  waited 0 s, worked 4 s",
        "   └─ ▶ ship  ◆  waited 0 s, worked 1 s  (after pack, check)",
        "      └─ ◇ thank  ◆",
    ]


def test_a_gantt_chart_fills_the_width_of_the_terminal(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    rows = windlass("workflows", "gantt", "order-7").stdout.splitlines()[3:]

    bars = {row.split()[1]: row for row in rows}
    per_second = (100 - 11 - 12) / 8

    assert bars["charge"].count("░") == pytest.approx(per_second, abs=1)
    assert bars["charge"].count("▓") == pytest.approx(2 * per_second, abs=1)
    assert bars["pack"].count("▓") == pytest.approx(4 * per_second, abs=1)
    assert bars["thank"].count("▓") == 0
    assert bars["charge"].endswith(" 2 s")
    assert max(map(len, rows)) <= 100


def test_steps_are_shown_with_what_they_wait_for(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    said = windlass("workflows", "show", "order-7").stdout
    whole = read(windlass("workflows", "show", "order-7", "--json"))

    assert str(half_done["thank"]) in said
    steps = {step["name"]: step for step in whole["steps"]}
    assert whole["critical_path"] == [str(half_done[name]) for name in ("charge", "pack", "ship", "thank")]
    assert (steps["charge"]["waited_seconds"], steps["pack"]["worked_seconds"]) == (1, 4)
    assert set(steps["ship"]["prerequisites"]) == {str(half_done["pack"]), str(half_done["check"])}


def test_the_critical_path_goes_through_the_prerequisite_that_ended_last(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    """Whatever the order of names: of two that ran beside each other, the slow one decides."""
    ids = {
        key: receipt.id
        for key, receipt in zip(
            "abz",
            store.submit([a_task(key="a", workflow="w"), a_task(key="b", workflow="w")])
            + store.submit([a_task(key="z", workflow="w", prerequisites=["a", "b"])]),
            strict=True,
        )
    }
    clock.advance(SECOND)
    claims = {claim.task.key: claim.lease for claim in store.claim(a_session(store), ["default"], 5)}
    store.settle([(claims["b"], COMPLETED)])
    clock.advance(SECOND)
    store.settle([(claims["a"], COMPLETED)])

    whole = read(windlass("workflows", "show", "w", "--json"))

    assert whole["critical_path"] == [str(ids["a"]), str(ids["z"])]


def test_very_many_steps_under_one_are_summed_up(windlass: Windlass, store: Store) -> None:
    batch = [a_task(key="root", workflow="wide")]
    batch += [a_task(key=f"part-{n:03}", workflow="wide", prerequisites=["root"]) for n in range(100)]
    store.submit(batch)

    said = windlass("workflows", "graph", "wide").stdout.splitlines()

    assert len(said) == 2 + 1 + 12
    assert said[-1] == "└─ … and 89 more: ◇ 89"


def test_a_long_chain_is_drawn_to_its_end(windlass: Windlass, store: Store) -> None:
    store.submit([a_task(key=f"s{n}", workflow="long", prerequisites=[f"s{n - 1}"] if n else []) for n in range(1_500)])

    said = windlass("workflows", "graph", "long")

    assert (said.exit_code, "s1499" in said.stdout) == (0, True)


def test_a_step_is_retried_with_all_that_it_took_down(
    windlass: Windlass, store: Store, clock: ManualClock, shop: dict[str, TaskId]
) -> None:
    session = a_session(store)
    [charge] = store.claim(session, ["default"], 1)
    clock.advance(SECOND)
    store.settle([(charge.lease, COMPLETED)])
    claims = {claim.task.key: claim for claim in store.claim(session, ["default"], 5)}
    report(store, claims["pack"], GAVE_UP)
    store.settle([(claims["check"].lease, COMPLETED)])
    store.sweep()

    tried = read(windlass("workflows", "retry", "order-7", "--from", "pack", "--dry-run", "--json"))
    refused = windlass("workflows", "retry", "order-7", "--from", "pack")
    done = windlass("workflows", "retry", "order-7", "--from", "pack", "--yes", "--by", "ann")

    assert (tried["matching"], refused.exit_code, done.stdout) == (3, 2, "retried 3 tasks\n")
    states = {name: state_of(store, id) for name, id in shop.items()}
    assert (states["pack"], states["ship"], states["thank"]) == (State.RUNNABLE, State.WAITING, State.WAITING)
    assert states["check"] is State.COMPLETED
    assert store.audit("workflow/order-7")[0].by == "ann"


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["graph", "none"], 4, "'none'"),
        (["retry", "order-7", "--from", "fly", "--yes"], 2, "step='fly'"),
        (["retry", "order-7", "--from", "charge", "--yes"], 5, "charge is runnable"),
        (["retry", "order-7"], 2, "--from"),
    ],
)
def test_bad_input_is_refused(
    windlass: Windlass, shop: dict[str, TaskId], words: list[str], status: int, named: str
) -> None:
    said = windlass("workflows", *words)

    assert (said.exit_code, named in said.stderr) == (status, True), said.output


def test_one_name_of_two_tenants_asks_for_the_tenant(windlass: Windlass, store: Store) -> None:
    for tenant in ("acme", "beta"):
        store.submit([a_task(key="a", workflow="w", tenant=tenant)])

    assert "acme, beta" in windlass("workflows", "graph", "w").stderr
    assert windlass("workflows", "graph", "w", "--tenant", "beta").exit_code == 0
