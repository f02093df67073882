"""`windlass workflows`."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta

import apsw
import pytest

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import (
    GAVE_UP,
    SECOND,
    a_session,
    a_task,
    claim_one,
    complete,
    in_state,
    report,
    state_of,
    submit_one,
)
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import COMPLETED, Raised
from windlass.core.task import TaskId, Wait
from windlass.core.waits import new_event
from windlass.stores.protocol import Store


@pytest.fixture
def shop(store: Store) -> dict[str, TaskId]:
    """An order: charge, then pack and check, then ship after both, then thank."""
    after = {"charge": [], "check": ["charge"], "pack": ["charge"], "ship": ["pack", "check"], "thank": ["ship"]}
    batch = [a_task(key=key, workflow="order-7", prerequisites=before) for key, before in after.items()]
    return dict(zip(after, (receipt.id for receipt in store.submit(batch)), strict=True))


@pytest.fixture
def half_done(store: Store, clock: ManualClock, shop: dict[str, TaskId]) -> dict[str, TaskId]:
    """Charge waited 1 s and took 2 s, check took 1 s, pack 4 s; ship has run for 1 s."""
    session = a_session(store, ttl=60 * SECOND)
    clock.advance(SECOND)
    [charge] = store.claim(session, ["default"], 1)
    clock.advance(2 * SECOND)
    store.settle([(charge.lease, COMPLETED)])
    claims = {claim.key: claim.lease for claim in store.claim(session, ["default"], 5)}
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
    assert read(windlass("workflows", "ls", "--tenant", "other", "--json")) == {"workflows": [], "next": None}


def test_a_graph_is_a_tree_with_a_marked_critical_path(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    result = windlass("workflows", "graph", "order-7")

    assert result.stdout.splitlines() == [
        "order-7  tenant default  ◇ 1, ▶ 1, ✓ 3",
        "submitted 13:00:00 +01:00 · 8 s ago, unfinished, 8 s in total",
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


def test_steps_are_shown_with_their_prerequisites(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    result = windlass("workflows", "show", "order-7").stdout
    whole = read(windlass("workflows", "show", "order-7", "--json"))

    assert str(half_done["thank"]) in result
    steps = {step["name"]: step for step in whole["steps"]}
    assert whole["critical_path"] == [str(half_done[name]) for name in ("charge", "pack", "ship", "thank")]
    assert (steps["charge"]["waited_seconds"], steps["pack"]["worked_seconds"]) == (1, 4)
    assert set(steps["ship"]["prerequisites"]) == {str(half_done["pack"]), str(half_done["check"])}


def test_the_critical_path_goes_through_the_prerequisite_that_ended_last(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    """Of two steps that ran in parallel, the slower one is on the critical path, whatever their names."""
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
    claims = {claim.key: claim.lease for claim in store.claim(a_session(store), ["default"], 5)}
    store.settle([(claims["b"], COMPLETED)])
    clock.advance(SECOND)
    store.settle([(claims["a"], COMPLETED)])

    whole = read(windlass("workflows", "show", "w", "--json"))

    assert whole["critical_path"] == [str(ids["a"]), str(ids["z"])]


def test_many_similar_steps_share_a_line(windlass: Windlass, store: Store) -> None:
    batch = [a_task(key="root", workflow="wide")]
    batch += [a_task(key=f"part-{n:03}", workflow="wide", prerequisites=["root"]) for n in range(100)]
    store.submit(batch)

    result = windlass("workflows", "graph", "wide").stdout.splitlines()

    assert result[2:] == ["▸ root  ◆", "├─ ◇ work ×99  (part-000 … part-098)", "└─ ◇ part-099  ◆"]


def test_many_different_steps_are_cut_with_their_number(windlass: Windlass, store: Store) -> None:
    batch = [a_task(key="root", workflow="wide")]
    batch += [a_task(handler=f"h{n}", key=f"p{n:02}", workflow="wide", prerequisites=["root"]) for n in range(40)]
    store.submit(batch)

    result = windlass("workflows", "graph", "wide").stdout.splitlines()

    assert len(result) == 2 + 1 + 12
    assert (result[-2], result[-1]) == ("├─ ◇ p39  ◆", "└─ … 29 more: ◇ 29")


def test_similar_subtrees_are_drawn_once(windlass: Windlass, store: Store) -> None:
    batch = [a_task(handler="list", key="root", workflow="map")]
    for n in range(30):
        batch.append(a_task(handler="fetch", key=f"f{n}", workflow="map", prerequisites=["root"]))
        batch.append(a_task(handler="parse", key=f"p{n}", workflow="map", prerequisites=[f"f{n}"]))
    store.submit([*batch, a_task(key="join", workflow="map", prerequisites=[f"p{n}" for n in range(30)])])

    result = windlass("workflows", "graph", "map").stdout.splitlines()[2:]

    assert len(result) == 6
    assert result[0] == "▸ root  ◆"
    assert {"├─ ◇ fetch ×29", "│  └─ ◇ parse ×29"} <= {line.partition("  (")[0] for line in result}
    assert result[-1].endswith("more)")


def test_deep_branches_are_cut(windlass: Windlass, store: Store) -> None:
    """Each step of the chain has a sibling, so that it is not drawn as a chain."""
    batch = [a_task(key="s0", workflow="comb")]
    for n in range(1, 500):
        batch += [a_task(key=key, workflow="comb", prerequisites=[f"s{n - 1}"]) for key in (f"s{n}", f"t{n}")]
    store.submit(batch)

    result = windlass("workflows", "graph", "comb").stdout.splitlines()[2:]

    assert len(result) <= 100
    assert sum("… 939 more: ◇ 939" in line for line in result) == 1


@pytest.fixture
def chain(store: Store) -> Store:
    """A chain of 10,001 steps."""
    store.submit([a_task(key=f"s{n}", workflow="w", prerequisites=[f"s{n - 1}"] if n else []) for n in range(10_001)])
    return store


@pytest.fixture
def fan(store: Store) -> Store:
    store.submit([a_task(key="root", workflow="w")])
    store.submit([a_task(handler="resize", key=f"p{n}", workflow="w", prerequisites=["root"]) for n in range(20_000)])
    return store


def pictures(windlass: Windlass) -> dict[str, str]:
    """Return a large workflow in each form, and check that each is short."""
    result = {form: windlass("workflows", form, "w") for form in ("show", "graph", "gantt")}
    assert {form: one.exit_code for form, one in result.items()} == dict.fromkeys(result, 0)
    assert all(len(one.stdout.encode()) < 20_000 for one in result.values())
    return {form: one.stdout for form, one in result.items()}


@pytest.mark.usefixtures("chain")
def test_a_chain_of_10001_steps_is_cut_in_the_middle(windlass: Windlass) -> None:
    result = pictures(windlass)

    assert result["graph"].splitlines()[2:] == [
        "▸ s0  ◆",
        "└─ ◇ s1  ◆",
        "   └─ ◇ s2  ◆",
        "      └─ … 9,996 more: ◇ 9,996",
        "         └─ ◇ s9999  ◆",
        "            └─ ◇ s10000  ◆",
    ]
    assert "… 9,951 more: ◇ 9,951" in result["show"]
    assert "… 9,951 more: ◇ 9,951" in result["gantt"]
    assert "s10000" in result["show"]

    below = windlass("workflows", "graph", "w", "--after-step", "s9998").stdout.splitlines()[2:]
    assert below == ["◇ s9999  ◆", "└─ ◇ s10000  ◆"]


@pytest.mark.usefixtures("fan")
def test_a_fan_of_20000_steps_shares_a_line(windlass: Windlass) -> None:
    result = pictures(windlass)

    for form in result.values():
        assert len(form.splitlines()) <= 6
        assert "resize ×19,999" in form


def test_failed_and_running_steps_of_a_large_workflow_are_shown_first(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    store.submit([a_task(key=f"s{n:04}", handler=f"h{n % 200}", workflow="w") for n in range(1_000)])
    claims = {claim.key: claim for claim in store.claim(a_session(store), ["default"], 503)}
    clock.advance(SECOND)
    report(store, claims.pop("s0500"), GAVE_UP)
    complete(store, *(claims.pop(f"s{n:04}") for n in range(500)))

    result = windlass("workflows", "show", "w").stdout

    assert all(name in result for name in ("✗ failed", "s0500", "s0501", "s0502", "s0999"))
    hidden = [int(number.replace(",", "")) for number in re.findall(r"… ([\d,]+) more", result)]
    groups = [int(number.replace(",", "")) for number in re.findall(r"×([\d,]+)", result)]
    steps = len(result.splitlines()) - 3 - len(hidden) - len(groups)
    assert sum(hidden) + sum(groups) + steps == 1_000


def test_a_fan_in_of_1500_has_all_edges_and_the_right_critical_path(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    keys = [f"p{n}" for n in range(1_500)]
    parts = [receipt.id for receipt in store.submit([a_task(key=key, workflow="w") for key in keys])]
    [join] = [one.id for one in store.submit([a_task(key="join", workflow="w", prerequisites=keys)])]
    claims = {claim.id: claim for claim in store.claim(a_session(store), ["default"], 2_000)}
    last = claims.pop(max(parts))
    complete(store, *claims.values())
    clock.advance(SECOND)
    complete(store, last)

    first = read(windlass("workflows", "show", "w", "--json"))
    rest = read(windlass("workflows", "show", "w", "--json", "--after-step", first["next"]))
    all_lines = lines(windlass("workflows", "show", "w", "--jsonl"))

    assert (len(first["steps"]), len(rest["steps"]), rest["next"]) == (1_000, 501, None)
    assert [step["id"] for step in all_lines] == [step["id"] for step in first["steps"] + rest["steps"]]
    assert sorted(all_lines[-1]["prerequisites"]) == sorted(map(str, parts))
    assert first["critical_path"] == [str(last.id), str(join)]
    assert (first["critical_steps"], first["tasks"]) == (2, {"runnable": 1, "completed": 1_500})


def test_steps_are_paged_in_order(windlass: Windlass, half_done: dict[str, TaskId]) -> None:
    first = windlass("workflows", "show", "order-7", "--limit", "2")
    rest = windlass("workflows", "show", "order-7", "--after-step", "check", "--limit", "5")

    def steps(text: str) -> list[str]:
        return [line[3:].split()[0] for line in text.splitlines()[3:]]

    assert (steps(first.stdout), steps(rest.stdout)) == (["charge", "check"], ["pack", "ship", "thank"])
    assert f"--after-step {half_done['check']}" in first.stderr
    assert rest.stderr == ""


def test_a_workflow_too_large_for_a_graph_is_counted(
    windlass: Windlass, half_done: dict[str, TaskId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.operations.workflows.MAX_STEPS", 3)

    for form in ("show", "graph", "gantt"):
        result = windlass("workflows", form, "order-7")
        assert result.stdout.splitlines()[2:] == [
            "5 steps are too many for a graph and a critical path. Counts:",
            "handler  tasks  states",
            "work         5  1 waiting, 1 leased, 3 completed",
            "running: ship",
        ]
        assert "--limit and --after-step" in result.stderr
    page = windlass("workflows", "show", "order-7", "--limit", "2")
    whole = read(windlass("workflows", "show", "order-7", "--json"))

    assert (len(page.stdout.splitlines()), "--after-step" in page.stderr) == (5, True)
    assert (whole["aggregated"], whole["critical_path"], len(whole["steps"])) == (True, [], 5)
    assert [(group["state"], group["tasks"]) for group in whole["groups"]] == [
        ("completed", 3),
        ("leased", 1),
        ("waiting", 1),
    ]


@pytest.mark.usefixtures("half_done")
def test_a_workflow_is_cancelled_after_confirmation(windlass: Windlass, store: Store) -> None:
    tried = read(windlass("workflows", "cancel", "order-7", "--dry-run", "--json"))
    refused = windlass("workflows", "cancel", "order-7")
    done = windlass("workflows", "cancel", "order-7", "--yes", "--why", "wrong customer", "--by", "ann")

    assert (tried["total"], refused.exit_code) == (2, 2)
    assert done.stdout == "Cancelled 2 tasks.\n"
    [entry] = store.audit("tasks")
    assert (entry.by, "wrong customer" in entry.text) == ("ann", True)
    assert windlass("workflows", "cancel", "none", "--yes").exit_code == 4


def test_a_step_is_retried_with_everything_cancelled_because_of_it(
    windlass: Windlass, store: Store, clock: ManualClock, shop: dict[str, TaskId]
) -> None:
    session = a_session(store)
    [charge] = store.claim(session, ["default"], 1)
    clock.advance(SECOND)
    store.settle([(charge.lease, COMPLETED)])
    claims = {claim.key: claim for claim in store.claim(session, ["default"], 5)}
    report(store, claims["pack"], GAVE_UP)
    store.settle([(claims["check"].lease, COMPLETED)])
    store.sweep()

    tried = read(windlass("workflows", "retry", "order-7", "--from", "pack", "--dry-run", "--json"))
    refused = windlass("workflows", "retry", "order-7", "--from", "pack")
    done = windlass("workflows", "retry", "order-7", "--from", "pack", "--yes", "--by", "ann")

    assert (tried["matching"], refused.exit_code, done.stdout) == (3, 2, "Retried 3 tasks.\n")
    states = {name: state_of(store, id) for name, id in shop.items()}
    assert (states["pack"], states["ship"], states["thank"]) == (State.RUNNABLE, State.WAITING, State.WAITING)
    assert states["check"] is State.COMPLETED
    assert store.audit("workflow/order-7")[0].by == "ann"


def test_a_chain_of_10001_steps_is_retried_from_its_first(windlass: Windlass, chain: Store, url: str) -> None:
    ids = [keyed_id("default", "w", f"s{n}") for n in range(10_001)]
    take_down(url, ids[0])
    before = Counter(task.state for task in chain.get(ids) if task is not None)

    tried = read(windlass("workflows", "retry", "w", "--from", "s0", "--dry-run", "--json"))
    done = read(windlass("workflows", "retry", "w", "--from", "s0", "--yes", "--json"))

    assert before == {State.FAILED: 1, State.CANCELLED: 10_000}
    assert (tried, done) == ({"retried": 0, "matching": 10_001}, {"retried": 10_001, "matching": 10_001})
    after = Counter(task.state for task in chain.get(ids) if task is not None)
    assert after == {State.RUNNABLE: 1, State.WAITING: 10_000}
    assert state_of(chain, ids[0]) is State.RUNNABLE


def test_a_fan_of_20000_steps_is_retried_from_its_root(windlass: Windlass, fan: Store, url: str) -> None:
    take_down(url, keyed_id("default", "w", "root"))

    done = read(windlass("workflows", "retry", "w", "--from", "root", "--yes", "--json"))

    assert done == {"retried": 20_001, "matching": 20_001}
    [seen] = fan.workflows().workflows
    assert not seen.complete
    assert sum(group.tasks for group in seen.groups if group.state is State.WAITING) >= 9_999


def take_down(url: str, first: TaskId) -> None:
    """Fail one step and cancel everything else because of it, as the cascade would."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    with connection:
        connection.execute(
            """
            UPDATE task SET finished = 1, waiting = 0, state = iif(id = ?1, 'failed', 'cancelled'),
                            reason = iif(id = ?1, 'oops', 'Prerequisite of this failed.')
            """,
            [first.bytes],
        )
        connection.execute("UPDATE edge SET resolved = 1")
        connection.execute("DELETE FROM runnable; DELETE FROM count_delta")
        connection.execute(
            "INSERT INTO count_delta (queue, tenant, state, tasks)"
            " SELECT queue, tenant, state, count(*) FROM task GROUP BY 1, 2, 3"
        )
    connection.close()


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["graph", "none"], 4, "'none'"),
        (["retry", "order-7", "--from", "fly", "--yes"], 2, "step='fly'"),
        (["retry", "order-7", "--from", "charge", "--yes"], 5, "Step charge is runnable"),
        (["retry", "order-7"], 2, "--from"),
    ],
)
def test_bad_input_is_refused(
    windlass: Windlass, shop: dict[str, TaskId], words: list[str], status: int, named: str
) -> None:
    result = windlass("workflows", *words)

    assert (result.exit_code, named in result.stderr) == (status, True), result.output


def test_a_name_of_two_tenants_needs_the_tenant(windlass: Windlass, store: Store) -> None:
    for tenant in ("acme", "beta"):
        store.submit([a_task(key="a", workflow="w", tenant=tenant)])

    assert "acme, beta" in windlass("workflows", "graph", "w").stderr
    assert windlass("workflows", "graph", "w", "--tenant", "beta").exit_code == 0


def test_why_names_an_unsealed_workflow(windlass: Windlass, store: Store) -> None:
    before = in_state(store, State.COMPLETED)
    store.open_workflow("open", sealed=False)
    id = submit_one(store, workflow="open", key="a", prerequisites=[before])

    assert "● prerequisites: the workflow is not sealed\n" in windlass("why", str(id)).stdout


def test_the_times_of_a_step_that_is_retried_are_those_of_its_latest_attempt(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    submit_one(store, handler="mail", workflow="w", key="first", retry=Retry(retries=3, base=timedelta(minutes=5)))
    clock.advance(3 * SECOND)
    claim = claim_one(store)
    clock.advance(7 * SECOND)
    report(store, claim, Raised(Error(kind="ValueError", message="oops")))
    clock.advance(20 * SECOND)

    [step] = read(windlass("workflows", "show", "w", "--json"))["steps"]
    shown = windlass("workflows", "show", "w").stdout

    assert step["state"] == "retrying"
    assert (step["waited_seconds"], step["worked_seconds"]) == (3.0, 7.0)
    assert step["began"] is not None
    assert "7 s" in next(line for line in shown.splitlines() if "retrying" in line and "first" in line)


def test_a_signal_sets_an_event(windlass: Windlass, store: Store) -> None:
    step = new_event("order-7", "approved", tenant="acme", wait=Wait(event="approved"))
    store.submit([step, a_task(tenant="acme", workflow="order-7", key="ship", prerequisites=["event:approved"])])
    assert "event:approved" in windlass("workflows", "show", "order-7").output
    assert "event:approved" in windlass("workflows", "graph", "order-7").output
    assert "waits for event approved" in windlass("why", str(keyed_id("acme", "order-7", "event:approved"))).output

    first = windlass("workflows", "signal", "order-7", "approved", "--data", '{"n": 1}', "--by", "ada", "--why", "ok")
    again = windlass("workflows", "signal", "order-7", "approved", "--data", '{"n":1}')
    other = windlass("workflows", "signal", "order-7", "approved")
    wrong = windlass("workflows", "signal", "order-7", "rejected", "--data", "yes")

    assert first.output == "Set event approved of order-7.\n"
    assert again.output == "Event approved of order-7 was already set to this value.\n"
    assert (other.exit_code, wrong.exit_code) == (6, 2)
    assert "is already set to another value" in other.output
    assert "is not JSON" in wrong.output
    [entry] = store.audit("workflow/order-7")
    assert (entry.by, entry.text) == ("ada", "set event approved of workflow order-7 of acme: ok")
    early = read(windlass("workflows", "signal", "order-8", "approved", "--json"))
    assert (early["changed"], early["state"]) == (True, "completed")
