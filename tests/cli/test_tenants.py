"""`windlass tenants` and `windlass limits`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import GAVE_UP, HOUR, SECOND, a_session, a_task, claim_all, run, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.fairness import TENANT
from windlass.core.limits import LIMIT
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Store

UNSET = {
    "weight": 1,
    "weight_by": None,
    "weight_why": None,
    "weight_until": None,
    "paused": False,
    "paused_by": None,
    "paused_why": None,
    "paused_until": None,
}


def run_for(store: Store, tenant: str, seconds: int) -> None:
    submit_one(store, queue="fair", tenant=tenant)
    [claim] = store.claim(a_session(store), ["fair"], 1)
    store.settle([(claim.lease, replace(COMPLETED, ran=seconds * 1_000_000))])


def test_tenants_are_listed_with_their_queues(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="mail", tenant="acme")
    submit_one(store, queue="bulk", tenant="acme")
    submit_one(store, tenant="beta")
    run(store, GAVE_UP)

    rows = read(windlass("tenants", "ls", "--json"))

    assert rows == [
        {"name": "acme", "tasks": {"runnable": 2}, "queues": ["bulk", "mail"], **UNSET},
        {"name": "beta", "tasks": {"failed": 1}, "queues": ["default"], **UNSET},
    ]
    assert lines(windlass("tenants", "ls", "--jsonl")) == rows


def test_the_list_shows_weights_and_pauses(windlass: Windlass, store: Store) -> None:
    submit_one(store, tenant="acme")
    submit_one(store, tenant="beta")

    windlass("tenants", "weight", "acme", "3", "--by", "ann", "--why", "launch")
    paused = windlass("tenants", "pause", "acme", "--for", "1h", "--by", "bob", "--why", "noisy")

    assert paused.stderr.startswith("Tenant acme is paused for 1h. `windlass tenants resume acme` resumes it.\n")
    listed = windlass("tenants", "ls").stdout.splitlines()
    assert listed[1].endswith('default  PAUSED by bob until 14:00:00 +01:00 · in 1 h "noisy", weight 3 by ann "launch"')
    assert listed[2].endswith("default  weight 1")


def test_a_weight_is_set_for_a_time_and_reset(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    submit_one(store, tenant="acme")

    result = windlass("tenants", "weight", "acme", "5", "--for", "1h", "--by", "ann")
    found = read(windlass("tenants", "show", "acme", "--json"))
    clock.advance(HOUR)
    later = read(windlass("tenants", "show", "acme", "--json"))

    assert (result.stdout, result.stderr) == ("", "Tenant acme has weight 5 for 1h.\nUndo: windlass audit undo 1\n")
    assert (found["weight"], found["weight_by"], found["weight_until"]) == (5, "ann", "2027-01-15T13:00:00Z")
    assert later["weight"] == 1
    windlass("tenants", "weight", "acme", "7")
    assert "weight 1." in windlass("tenants", "weight", "acme", "none").stderr
    assert store.controls(TENANT) == []


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["weight", "acme", "0"], 2, "weight=0"),
        (["weight", "acme", "1001"], 2, "weight=1001"),
        (["weight", "acme", "many"], 2, "weight='many'"),
        (["weight", "acme", "none", "--for", "1h"], 2, "for='1h'"),
        (["weight", "acme", "2", "--for", "soon"], 2, "for='soon'"),
        (["pause", "acme", "--for=-1h"], 2, "for="),
        (["limit", "acme"], 2, "give max_running, a rate, or both"),
        (["limit", "acme", "--max-rate", "often"], 2, "rate='often'"),
        (["limit", "acme", "--max-running", "-1"], 2, "max_running=-1"),
        (["limit", "acme", "--max-running", "1", "--queue", "bulkk"], 4, "'bulkk'"),
        (["weight", "acmee", "2"], 4, "--create"),
        (["pause", "acmee"], 4, "--create"),
        (["limit", "acmee", "--max-running", "1"], 4, "--create"),
        (["resume", "acmee"], 4, "'acmee'"),
        (["show", "acmee"], 4, "'acmee'"),
    ],
    ids=str,
)
def test_an_invalid_change_of_a_tenant_is_refused(
    windlass: Windlass, store: Store, words: list[str], status: int, named: str
) -> None:
    submit_one(store, tenant="acme")

    result = windlass("tenants", *words)

    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert named in result.stderr
    assert (store.controls(TENANT), store.controls(LIMIT), store.audit()) == ([], [], [])


def test_a_paused_tenant_is_not_claimed_until_it_is_resumed(windlass: Windlass, store: Store) -> None:
    id = submit_one(store, tenant="acme")
    windlass("tenants", "pause", "acme", "--why", "noisy", "--by", "ann")
    assert claim_all(store) == []
    why = windlass("why", str(id))

    resumed = windlass("tenants", "resume", "acme", "--by", "ann")

    assert (why.exit_code, '● tenant: acme is paused by ann: "noisy"' in why.stdout) == (4, True), why.output
    assert resumed.stderr.startswith("Tenant acme is open.\n")
    assert len(claim_all(store)) == 1
    assert [entry.action for entry in store.audit("tenant/acme")] == ["resumed", "paused"]


def test_a_tenant_is_shown_with_its_shares_and_limits(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="fair", fair=True))
    run_for(store, "acme", 30)
    run_for(store, "beta", 10)
    windlass("tenants", "weight", "beta", "3", "--by", "ann")
    windlass("tenants", "limit", "acme", "--queue", "fair", "--max-running", "4", "--by", "ann")
    submit(store, a_task(queue="fair", tenant="acme"), a_task(queue="fair", tenant="beta"))

    shown = windlass("tenants", "show", "acme")

    assert shown.stdout.splitlines() == [
        "acme: weight 1",
        "tasks: 1 runnable, 1 completed, in fair",
        "limit: tenant acme in queue fair: 4 at once, 0 running, open, set by ann",
        "queue  period       run time    due    got  borrowed  runnable  leased",
        "fair   last minute      30 s  25.0%  75.0%     50.0%         1       0",
        "fair   last hour        30 s  25.0%  75.0%     50.0%         1       0",
    ]
    [share] = read(windlass("tenants", "show", "acme", "--json"))["shares"]
    assert share["last_minute"] == {"run_seconds": 30.0, "due": 0.25, "got": 0.75, "borrowed": 0.5}


def test_a_tenant_without_fair_queues_has_no_shares(windlass: Windlass, store: Store) -> None:
    submit_one(store, tenant="acme")

    shown = windlass("tenants", "show", "acme")

    assert shown.stdout.splitlines() == ["acme: weight 1", "tasks: 1 runnable, in default"]
    assert shown.stderr == "It has used no fair queue.\n"


def test_an_unknown_tenant_is_created_on_request(windlass: Windlass) -> None:
    created = windlass("tenants", "weight", "later", "4", "--create")

    assert created.exit_code == 0
    assert read(windlass("tenants", "show", "later", "--json"))["weight"] == 4


def test_limits_are_listed_with_what_is_used(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    submit(store, *(a_task(queue="bulk", tenant="acme", handler="mail") for _ in range(5)))
    windlass("limits", "set", "--queue", "bulk", "--max-running", "2", "--by", "ann", "--why", "small database")
    windlass("limits", "set", "--tenant", "acme", "--max-rate", "2/1m", "--by", "ann")
    windlass("limits", "set", "--handler", "mail", "--max-running", "9", "--by", "ann")
    claim_all(store, queues=["bulk"])
    clock.advance(SECOND)

    assert windlass("limits", "ls").stdout.splitlines() == [
        "limit on      allows     running  now                         held back  set",
        "handler mail  9 at once        2  open                                –  by ann",
        'queue bulk    2 at once        2  full                                3  by ann "small database"',
        "tenant acme   2/1m             2  next start 13:00:30 +01:00          3  by ann",
    ]


def test_a_limit_is_set_replaced_and_removed(windlass: Windlass, store: Store) -> None:
    first = windlass("limits", "set", "--limit-key", "customer:7", "--max-running", "1", "--max-rate", "5/s")
    second = windlass("tenants", "limit", "acme", "--max-running", "3", "--for", "1h", "--create")
    replaced = read(windlass("limits", "set", "--limit-key", "customer:7", "--max-running", "2", "--json"))

    assert first.stderr.startswith("Limited key customer:7 to 1 at once, 5/1s.\n")
    assert second.stderr.startswith("Limited tenant acme to 3 at once for 1h.\n")
    assert (replaced["key"], replaced["max_running"], replaced["rate"]) == ("customer:7", 2, None)
    removed = windlass("limits", "rm", "--limit-key", "customer:7", "--by", "ann")
    assert removed.stderr.startswith("Removed the limit on key customer:7.\n")
    assert [each["name"] for each in read(windlass("limits", "ls", "--json"))] == ["tenant=acme"]
    again = windlass("limits", "rm", "--limit-key", "customer:7")
    assert (again.exit_code, "none on key customer:7" in again.stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["set"], 2),
        (["set", "--max-running", "1"], 2),
        (["set", "--limit-key", "k"], 2),
        (["set", "--limit-key", "k", "--queue", "mail", "--max-running", "1"], 2),
        (["set", "--handler", "male", "--max-running", "1"], 2),
        (["set", "--queue", "male", "--max-running", "1"], 4),
        (["rm"], 2),
        (["rm", "--limit-key", "k"], 4),
    ],
    ids=str,
)
def test_an_invalid_limit_is_refused(windlass: Windlass, store: Store, words: list[str], status: int) -> None:
    result = windlass("limits", *words)

    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert (store.controls(LIMIT), store.audit()) == ([], [])


def test_without_limits_a_note_goes_to_standard_error(windlass: Windlass) -> None:
    result = windlass("limits", "ls")

    assert (result.stdout, result.stderr) == ("", "No limit is set.\n")
    assert read(windlass("limits", "ls", "--json")) == []


def test_why_names_a_limit(windlass: Windlass, store: Store) -> None:
    id = submit_one(store, tenant="acme")
    windlass("tenants", "limit", "acme", "--max-running", "0", "--by", "ann", "--why", "noisy")

    why = windlass("why", str(id))

    assert why.exit_code == 3, why.output
    assert '  ● limit: tenant acme: 0 of 0 run; set by ann: "noisy"' in why.stdout
    assert "  fix: windlass limits rm --tenant acme" in why.stdout
