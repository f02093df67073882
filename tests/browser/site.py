"""A dashboard to visit: a real node and a real server over a store in which there is one of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from tests.browser import shop
from tests.server.running import running
from tests.support.nodes import NodeProcess
from tests.support.processes import until
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.limits import Limit, parse_rate
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.task import TaskId
from windlass.operations import breakers, bulk_runs, crons, dead_letters, limits, pools, queues, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.crons import NewCron
from windlass.stores.coordination import EntrySeen
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter, Store
from windlass.wiring import open_store

OPS = Author("ops", f"nightly import {shop.IMAGE}")
LONG = "a-queue-with-a-name-of-sixty-characters-to-test-the-layout-x"
WORKFLOW = f"order {shop.BREAKOUT}"
OLD_CRON = "removed-from-code"
POOL = "shop"
NODE = "node-1"
FAILED = 4
"""How many tasks fail with the same error."""


class Site:
    """The address of a dashboard, and the store behind it."""

    def __init__(self, address: str, store: Store, folder: Path) -> None:
        self.address, self.store, self._folder = address, store, folder
        self.access, self.author = Access(store), OPS

    def audit(self, subject: str) -> list[EntrySeen]:
        """Return the audit entries about a subject, newest first."""
        return self.access.whole_store.audit(subject, limit=100)

    def one(self, state: State, handler: str | None = None) -> TaskId:
        """Return the newest task in a state, of a handler if one is named."""
        found = self.store.find(Filter(states=frozenset([state]), handler=handler), limit=1).tasks
        return found[0].id

    def group(self) -> DeadGroup:
        """Return the group of the bug in `render_invoice`."""
        return next(group for group in dead_letters.get_all(self.access) if "render_invoice" in group.handlers)

    def fix_bug(self) -> None:
        """Let `render_invoice` succeed from now on."""
        (self._folder / "fixed").touch()

    def ask_chat(self, text: str) -> None:
        """Let `chat` print a line with this text. It ends with the text "end"."""
        (self._folder / "chat").write_text(text)

    def break_again(self) -> None:
        """Let `render_invoice` fail from now on."""
        (self._folder / "fixed").unlink(missing_ok=True)


@contextmanager
def open_site(url: str, folder: Path, *, root_path: str = "") -> Iterator[Site]:
    """Fill the store at a URL, run a node on it, and serve it."""
    folder.mkdir(parents=True, exist_ok=True)
    store = open_store(url)
    shop.app.use_store(store)
    flags = ("-p", f"{POOL}:orders,invoices,mail,hold,fair=1-2", "--name", NODE)
    try:
        with NodeProcess(url, folder / "effects", *flags, app="tests.browser.shop:app") as node:
            seed(store, lambda: node.log)
            with running(store, dashboard=True, root_path=root_path) as address:
                yield Site(address, store, folder)
    finally:
        shop.app.use_store(None)
        store.close()


def seed(store: Store, log: Callable[[], str]) -> None:
    """Submit tasks until there is one in every state, and set one of everything that people can set."""
    access = Access(store)
    seed_settings(access)
    seed_tasks(store)
    wanted = {State.COMPLETED: 30, State.FAILED: FAILED, State.LEASED: 1, State.RETRYING: 2}

    def is_ready() -> bool:
        found = count_states(store)
        return all(found.get(state, 0) >= number for state, number in wanted.items()) and set(found) == set(State)

    until(is_ready, f"one task in every state: {count_states(store)}\n{log()[-2_000:]}")
    pools.tune(access, POOL, {"wait": 2.0}, author=OPS)
    created = NewCron(name="created at run time", handler="charge", schedule="every 15m", args={"order": 1})
    crons.create(access, created, OPS)


def seed_tasks(store: Store) -> None:
    """Submit tasks that stay in each of the nine states, a workflow, and tasks of three tenants."""
    with shop.app.workflow(WORKFLOW, tenant="acme") as flow:
        cents = flow.add(shop.charge, 1007)
        parcels = [flow.add(shop.pack, number, cents) for number in range(3)]
        for parcel in parcels:
            flow.add(shop.ship, parcel)
    with shop.app.workflow("stuck", tenant="beta") as flow:
        held = flow.add(shop.hold)
        flow.add(shop.charge, 8, after=[held])
    for number in range(FAILED):
        shop.render_invoice.using(tenant=("acme", "beta")[number % 2]).enqueue(number, shop.SCRIPT, token="hunter2")
    for number in range(30):
        shop.slice_work.using(tenant=("acme", "beta", "coda")[number % 3]).enqueue(number)
    for to in ("a@example.com", shop.IMAGE):
        shop.send_mail.enqueue(to)
    shop.charge.using(queue=LONG, tenant="coda", key=f"key {shop.SCRIPT}").enqueue(1)
    shop.charge.using(queue="paused", priority=5, deadline="20m").enqueue(2)
    shop.charge.using(delay="3h").enqueue(3)
    shop.charge.using(queue=LONG, expires=timedelta(milliseconds=1)).enqueue(4)
    cancelled = shop.charge.using(queue=LONG).enqueue(5)
    store.cancel([TaskId(cancelled.id)], reason=f"not needed {shop.IMAGE}")


def seed_settings(access: Access) -> None:
    """Set weights, limits, pauses, a breaker, and a cron that no app has."""
    queues.change(access, "fair", {"fair": True}, OPS, create=True)
    queues.pause(access, "paused", OPS, create=True)
    tenants.set_weight(access, "acme", 3, OPS, create=True)
    tenants.pause(access, "dora", OPS, create=True)
    limits.put(access, Limit(queue="orders", max_running=8), OPS, create=True)
    limits.put(access, Limit(tenant="beta", rate=parse_rate("100/1m")), OPS, create=True)
    limits.put(access, Limit(key=f"customer {shop.SCRIPT}", max_running=1), OPS, create=True)
    breakers.hold(access, "bank", BreakerState.CLOSED, author=OPS, create=True)
    access.store.publish(Manifest(crons=(CronInfo(name=OLD_CRON, handler="charge", schedule="0 4 * * *"),)))
    crons.pause(access, OLD_CRON, OPS)


def start_purge(site: Site) -> str:
    """Return the id of a long purge, as a server describes it while it works."""
    now = site.access.now
    run = BulkRun(
        id=f"{now:016x}",
        verb=Verb.PURGE,
        q=f'handler:"{shop.IMAGE}"',
        by=f"ops {shop.IMAGE}",
        tenant=None,
        queue=None,
        started=now,
        at=now,
        total=20_000,
        counted=True,
        done=3_500,
        in_steps=True,
    )
    return bulk_runs.save(site.store, run).id


def count_states(store: Store) -> dict[State, int]:
    """Return the number of tasks in each state that has any."""
    found: dict[State, int] = {}
    for count in store.counts():
        if count.tasks > 0:
            found[count.state] = found.get(count.state, 0) + count.tasks
    return found
