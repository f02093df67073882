"""What every button of the dashboard does, pressed in a browser and checked in the store.

One function for each action, under the action's path. A new action without one fails a test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from playwright.sync_api import Error

from tests.browser import shop
from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.support.processes import until
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.task import TaskId
from windlass.operations import breakers, crons, dead_letters, limits, queues, tenants, tokens
from windlass.operations.canary import find_run
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter

Scenario = Callable[[Visitor, Site], None]
SCENARIOS: dict[str, Scenario] = {}
DOWNSTREAM = 'tr[data-id="downstream-bank"]'
WHY = f"test {shop.IMAGE}"


def presses(path: str) -> Callable[[Scenario], Scenario]:
    """Register a scenario as the one of an action."""

    def register(scenario: Scenario) -> Scenario:
        assert path not in SCENARIOS, path
        SCENARIOS[path] = scenario
        return scenario

    return register


def form(path: str, inside: str = "main") -> str:
    """Return a selector of the form of an action."""
    return f"{inside} form[action$='{path}']"


def check_entry(site: Site, subject: str, action: str, why: str = WHY) -> None:
    """Check that this person's latest entry about a subject is this action, with this reason."""
    entry = next(entry for entry in site.audit(subject) if entry.by == "local")  # The autoscaler writes entries too.
    assert entry.action == action
    assert why in entry.text


def fail_with_another_bug(site: Site) -> DeadGroup:
    """Return a group of four tasks that fail with another bug. The first call submits them."""

    def groups() -> list[DeadGroup]:
        return [each for each in dead_letters.get_all(site.access) if "break_label" in each.handlers]

    if not groups():
        for number in range(4):
            shop.break_label.enqueue(number)
    until(lambda: [group.count for group in groups()] == [4], "four of them have failed")
    return groups()[0]


# Queues, tenants, limits


@presses("/queues/pause")
def pause_queue(visitor: Visitor, site: Site) -> None:
    visitor.open("queues")
    visitor.submit(form("queues/pause", 'tr[data-id="queue-mail"]'), why=WHY, lasts="2h")

    paused = queues.get(site.access, "mail").settings
    assert (paused.paused, paused.paused_why) == (True, WHY)
    assert paused.paused_until is not None
    assert shop.IMAGE in visitor.page.inner_text("#live_banners")
    check_entry(site, "queue/mail", "paused")


@presses("/queues/resume")
def resume_queue(visitor: Visitor, site: Site) -> None:
    visitor.open("audit")
    visitor.press("#live_banners [id='paused-mail'] button")

    assert not queues.get(site.access, "mail").settings.paused
    assert visitor.page.url.endswith("/audit"), "the banner comes back to the page it was on"
    check_entry(site, "queue/mail", "resumed", "")


@presses("/audit/undo")
def undo_entry(visitor: Visitor, site: Site) -> None:
    shop.charge.using(queue="undone").enqueue(1)
    visitor.open("queues/undone")
    visitor.submit(form("queues/pause"), why=WHY)
    assert queues.get(site.access, "undone").settings.paused

    visitor.press(f"{form('audit/undo', '.message')} button")
    assert not queues.get(site.access, "undone").settings.paused
    assert visitor.page.url.endswith("/queues/undone"), "the message comes back to the page it was on"
    check_entry(site, "queue/undone", "undone")

    visitor.open("audit?subject=queue/undone")
    visitor.press(f"{form('audit/undo', 'tbody tr:first-child')} button")
    assert queues.get(site.access, "undone").settings.paused, "the undo is undone"


@presses("/queues/configure")
def configure_queue(visitor: Visitor, site: Site) -> None:
    visitor.open("queues/orders")
    visitor.page.select_option(f"{form('queues/configure')} [name=strategy]", "aging")
    visitor.page.check(f"{form('queues/configure')} [name=fair]")
    visitor.submit(form("queues/configure"), weight="3", max_waiting="50000", step="2m", why=WHY)

    settings = queues.get(site.access, "orders").settings
    assert (settings.strategy, settings.fair, settings.weight, settings.max_waiting) == ("aging", True, 3, 50_000)
    check_entry(site, "queue/orders", "configured")


@presses("/queues/remove")
def remove_queue(visitor: Visitor, site: Site) -> None:
    queues.change(site.access, "unused", {"weight": 2}, site.author, create=True)
    visitor.open("queues/unused")
    visitor.submit(form("queues/remove"), why=WHY)

    assert "unused" not in {queue.name for queue in site.store.queues()}
    check_entry(site, "queue/unused", "removed")


@presses("/tenants/weight")
def weigh_tenant(visitor: Visitor, site: Site) -> None:
    visitor.open("tenants/coda")
    visitor.submit(form("tenants/weight"), weight="5", lasts="1h", why=WHY)

    settings = tenants.get(site.access, "coda").settings
    assert settings.weight == 5
    assert settings.weight_set_by is not None
    assert settings.weight_set_by.until is not None
    check_entry(site, "tenant/coda", "weighted")


@presses("/tenants/pause")
def pause_tenant(visitor: Visitor, site: Site) -> None:
    visitor.open("tenants/coda")
    visitor.submit(form("tenants/pause"), why=WHY)

    assert tenants.get(site.access, "coda").settings.paused is not None
    check_entry(site, "tenant/coda", "paused")


@presses("/tenants/resume")
def resume_tenant(visitor: Visitor, site: Site) -> None:
    visitor.open("tenants/coda")
    visitor.submit(form("tenants/resume"), why=WHY)

    assert tenants.get(site.access, "coda").settings.paused is None
    check_entry(site, "tenant/coda", "resumed")


@presses("/limits/set")
def set_limit(visitor: Visitor, site: Site) -> None:
    visitor.open("queues/orders")
    visitor.submit(form("limits/set"), tenant="acme", max_running="4", rate="100/1m", why=WHY)

    view = limits.get(site.access, Limit(queue="orders", tenant="acme"))
    assert (view.limit.max_running, view.limit.rate and view.limit.rate.tasks) == (4, 100)
    assert visitor.page.url.endswith("/queues/orders")
    check_entry(site, "limit/queue=orders,tenant=acme", "limited")


@presses("/limits/remove")
def remove_limit(visitor: Visitor, site: Site) -> None:
    visitor.open("tenants/acme")
    visitor.submit(form("limits/remove"), why=WHY)

    assert {view.limit.name for view in limits.get_all(site.access) if view.limit.tenant == "acme"} == set()
    check_entry(site, "limit/queue=orders,tenant=acme", "removed")


@presses("/breakers/hold")
def hold_breaker(visitor: Visitor, site: Site) -> None:
    visitor.open("queues")
    visitor.submit(form("breakers/hold", DOWNSTREAM), lasts="2h", why=WHY)

    held = breakers.get(site.access, "bank").breaker
    assert (held.state, held.reason) == (BreakerState.OPEN, WHY)
    assert held.until is not None
    check_entry(site, "breaker/bank", "held")
    visitor.open()
    visitor.press("#live_needs a[href='queues#downstreams']")
    assert WHY in visitor.page.inner_text(DOWNSTREAM)


@presses("/breakers/close")
def close_breaker(visitor: Visitor, site: Site) -> None:
    visitor.open("queues")
    visitor.submit(form("breakers/close", DOWNSTREAM), why=WHY)

    closed = breakers.get(site.access, "bank").breaker
    assert (closed.state, closed.forced_by) == (BreakerState.CLOSED, "")
    check_entry(site, "breaker/bank", "closed")


# Cron


def cron_card(name: str) -> str:
    return f"section.cron[id$='-{name}']"


@presses("/cron/create")
def create_cron(visitor: Visitor, site: Site) -> None:
    visitor.open("cron")
    made = {"name": "weekly", "schedule": "0 7 * * 1", "handler": "charge", "timezone": "Europe/Berlin"}
    visitor.submit(form("cron/create"), **made, args='{"order": 9}', why=WHY)

    info = crons.get(site.access, "weekly").state.info
    assert (info.schedule, info.timezone, json.loads(info.args)) == ("0 7 * * 1", "Europe/Berlin", {"order": 9})
    check_entry(site, "cron/weekly", "created")


@presses("/cron/change")
def change_cron(visitor: Visitor, site: Site) -> None:
    visitor.open("cron")
    visitor.submit(form("cron/change", cron_card("weekly")), schedule="@daily", why=WHY)

    info = crons.get(site.access, "weekly").state.info
    assert (info.schedule, json.loads(info.args)) == ("@daily", {"order": 9})
    check_entry(site, "cron/weekly", "changed")


@presses("/cron/pause")
def pause_cron(visitor: Visitor, site: Site) -> None:
    visitor.open("cron")
    visitor.submit(form("cron/pause", cron_card("weekly")), why=WHY)

    assert crons.get(site.access, "weekly").state.paused_why == WHY
    check_entry(site, "cron/weekly", "paused")


@presses("/cron/resume")
def resume_cron(visitor: Visitor, site: Site) -> None:
    visitor.open("cron")
    visitor.press(f"{form('cron/resume', cron_card('weekly'))} button")

    assert not crons.get(site.access, "weekly").state.paused
    check_entry(site, "cron/weekly", "resumed", "")


@presses("/cron/run")
def run_cron(visitor: Visitor, site: Site) -> None:
    before = {task.id for task in newest(site)}
    visitor.open("cron")
    visitor.press(f"{form('cron/run', cron_card('weekly'))} button")

    [id] = {task.id for task in newest(site)} - before
    assert visitor.page.url.endswith(f"/tasks/{id}")
    check_entry(site, "cron/weekly", "ran", "")


@presses("/cron/remove")
def remove_cron(visitor: Visitor, site: Site) -> None:
    visitor.open("cron")
    visitor.submit(form("cron/remove", cron_card("weekly")), why=WHY)

    assert "weekly" not in {cron.info.name for cron in site.store.crons()}
    check_entry(site, "cron/weekly", "removed")


# Dead letters


@presses("/dead/{group}/canary")
def start_canary(visitor: Visitor, site: Site) -> None:
    """The bug is still there, so the canary stops after one task, and the page says so without a reload."""
    group = fail_with_another_bug(site)
    visitor.open(f"dead/{group.id}")
    visitor.submit(form("canary"), patience="20s", why=WHY)
    visitor.page.wait_for_selector("#live_canary >> text=the same bug is back", timeout=20_000)

    run = find_run(site.access, group)
    assert run is not None
    assert (run.progress.retried, run.progress.left, run.progress.fixed) == (1, 3, False)
    check_entry(site, f"dead/{group.id}", "retried")


@presses("/dead/{group}/retry")
def retry_group(visitor: Visitor, site: Site) -> None:
    group = fail_with_another_bug(site)
    attempts = {id: fence(site, id) for id in dead_letters.get_ids(site.access, group)}
    visitor.open(f"dead/{group.id}")
    visitor.submit(form("retry"), why=WHY)

    until(lambda: all(fence(site, id) > before for id, before in attempts.items()), "all of them ran again")
    check_entry(site, f"dead/{group.id}", "retried")


@presses("/dead/{group}/edit")
def edit_group(visitor: Visitor, site: Site) -> None:
    group = fail_with_another_bug(site)
    visitor.open(f"dead/{group.id}")
    visitor.page.fill("#changes", '{"order": "x"}')
    visitor.press("button:has-text('Preview')")
    assert "order" in visitor.page.inner_text("[role=alert]")
    visitor.page.fill("#changes", '{"order": -1}')
    visitor.press("button:has-text('Preview')")
    assert "4 tasks would be submitted again" in visitor.page.inner_text("main")
    visitor.submit(form("edit"), why=WHY)

    until(lambda: count_completed(site, "break_label") == 4, "the edited tasks complete")
    check_entry(site, f"dead/{group.id}", "edited")


@presses("/dead/{group}/drop")
def drop_group(visitor: Visitor, site: Site) -> None:
    group = fail_with_another_bug(site)
    ids = dead_letters.get_ids(site.access, group)
    visitor.open(f"dead/{group.id}")
    visitor.submit(form("drop"), why=WHY)

    assert site.store.get(ids) == [None] * 4
    check_entry(site, f"dead/{group.id}", "dropped")


# Settings. They come last: the first token closes the server.


@presses("/settings/tokens/create")
def create_token(visitor: Visitor, site: Site) -> None:
    visitor.open("settings")
    visitor.page.click("#add-token > summary")
    visitor.page.check(f"{form('tokens/create')} [value=admin]")
    visitor.submit(form("tokens/create"), name="boss", expires="1d", why=WHY)

    secret = visitor.page.inner_text(".secret").strip()
    assert secret.startswith("wdl_")
    assert set(tokens.read_tokens(site.store)) == {"boss"}
    check_entry(site, "token/boss", "created")
    await_login(visitor)
    visitor.page.fill("input[name=token]", secret)
    visitor.press("form button")
    assert visitor.page.url.endswith("/settings")
    assert secret not in visitor.page.content()


@presses("/settings/tokens/revoke")
def revoke_token(visitor: Visitor, site: Site) -> None:
    visitor.open("settings")
    visitor.submit(form("tokens/revoke", 'tr[data-id="token-boss"]'), why=WHY)

    assert tokens.read_tokens(site.store) == {}
    assert site.audit("token/boss")[0].by == "boss"
    await_login(visitor)


def await_login(visitor: Visitor) -> None:
    """Wait until the session has ended. Its live updates end with status 401, which browsers report."""
    until(lambda: asks_for_token(visitor), "the server asks for a token")
    visitor.problems = [each for each in visitor.problems if "401" not in each]


def asks_for_token(visitor: Visitor) -> bool:
    with suppress(Error):  # A page with live updates goes to the login by itself, maybe just now.
        visitor.page.goto(f"{visitor.address}/settings")
    return "/login" in visitor.page.url


def newest(site: Site) -> list[Any]:
    return site.store.find(Filter(), limit=1_000).tasks


def fence(site: Site, id: TaskId) -> int:
    [task] = site.store.get([id])
    assert task is not None
    return task.fence if task.state is State.FAILED else -1


def count_completed(site: Site, handler: str) -> int:
    return len(site.store.find(Filter(states=frozenset([State.COMPLETED]), handler=handler), limit=100).tasks)
