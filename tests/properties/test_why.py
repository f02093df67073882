"""`why` and the claim agree: exactly the tasks whose gates are all open are claimed.

With limits, a task may close the gate of the next one, so the gates are looked at again after the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.stores import sqlite_home
from windlass.clock import ManualClock
from windlass.core.breaker import Breaker, BreakerState, encode
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.serving import Serves
from windlass.core.task import NewTask, Rate, SessionId, TaskId
from windlass.operations.explain import explain
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store

QUEUES = ("mail", "bulk")
TENANTS = ("a", "b")
DOWNSTREAMS = (None, "bank", "post")
SCOPES: tuple[dict[str, str], ...] = (
    {"queue": "mail"},
    {"tenant": "a"},
    {"queue": "bulk", "tenant": "b"},
    {"handler": "work"},
    {"key": "k"},
)
tasks = st.lists(
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from(QUEUES),
            "tenant": st.sampled_from(TENANTS),
            "limit": st.sampled_from([None, None, "k", "l"]),
            "downstream": st.sampled_from(DOWNSTREAMS),
            "delay": st.sampled_from([0, 0, 30]),
            "expires": st.sampled_from([None, None, 20, 60]),
            "after": st.sampled_from([None, None, 1, 2]),
            "handler": st.sampled_from(["work", "work", "foreign"]),
            "slots": st.sampled_from([1, 1, 2, 3]),
            "requires": st.sampled_from([(), (), ("gpu",), ("gpu", "arm")]),
        }
    ),
    min_size=1,
    max_size=12,
)
STEPS = ("advance", "pause", "resume", "open", "close", "settle", "cancel", "sweep")
RULES = ("fair", "limit", "rate", "remove", "pause tenant", "resume tenant", "run", "advance")


def actions(names: Sequence[str], most: int) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 11)), max_size=most)


class Shop:
    """A store with tasks in it, and what a node would need to claim them."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.store.publish(Manifest(handlers=(HandlerInfo(name="work"), HandlerInfo(name="foreign"))))
        self.ids: list[TaskId] = []

    def session(self) -> SessionId:
        pools = {"all": {"queues": QUEUES, "threads": 2}}
        about = {"queues": QUEUES, "pools": pools, "handlers": ["work"], "tags": ["gpu"]}
        return self.store.open_session("here", timedelta(hours=1), msgspec.json.encode(about).decode())

    def submit(self, wanted: list[dict[str, Any]]) -> None:
        for number, each in enumerate(wanted):
            above = number - each["after"] if each["after"] is not None else -1
            if above >= 0 and wanted[above]["tenant"] != each["tenant"]:
                above = -1
            new = NewTask(
                tenant=each["tenant"],
                limit=each["limit"],
                max_running=1 if each["limit"] else None,
                handler=each["handler"],
                slots=each["slots"],
                requires=each["requires"],
                queue=each["queue"],
                downstream=each["downstream"],
                delay=timedelta(seconds=each["delay"]),
                expires=None if each["expires"] is None else timedelta(seconds=each["expires"]),
                prerequisites=[self.ids[above]] if above >= 0 else [],
            )
            [receipt] = self.store.submit([new])
            self.ids.append(receipt.id)

    def do(self, action: str, number: int) -> None:
        match action:
            case "advance":
                self.clock.advance(timedelta(seconds=5 * number))
            case "pause" | "resume":
                self.store.configure(Queue(name=QUEUES[number % 2], paused=action == "pause"))
            case "fair":
                self.store.configure(Queue(name=QUEUES[number % 2], fair=number < 9))
            case "limit" | "rate" | "remove":
                amount: dict[str, Any] = {"rate": Rate(1 + number % 3, timedelta(seconds=10))}
                amount = {"max_running": number % 3} if action == "limit" else amount
                limit = Limit(**SCOPES[number % len(SCOPES)], **amount, set_by=self.set_by(number))
                self.put(LIMIT, limit.name, None if action == "remove" else encode_limit(limit))
            case "pause tenant" | "resume tenant":
                tenant = Tenant(paused=self.set_by(number) if action == "pause tenant" else None)
                self.put(TENANT, TENANTS[number % 2], encode_tenant(tenant))
            case "run":  # Leases that stay.
                self.store.claim(self.session(), QUEUES, 1 + number % 2)
            case "open" | "close":
                self.turn(
                    DOWNSTREAMS[1 + number % 2] or "", BreakerState.OPEN if action == "open" else BreakerState.CLOSED
                )
            case "settle":
                session = self.session()
                self.store.claim(session, QUEUES, 1 + number % 3)
                self.store.close_session(session)
            case "cancel":
                self.store.cancel([self.ids[number % len(self.ids)]], reason="for the test")
            case _:
                self.store.sweep()

    def set_by(self, number: int) -> SetBy:
        until = self.clock.now() + 15_000_000 * number if number % 4 == 1 else None
        return SetBy(by="ops", why="for the test", until=until)

    def put(self, kind: str, name: str, value: str | None) -> None:
        version = next((each.version for each in self.store.controls(kind) if each.name == name), None)
        if value is not None or version is not None:
            assert self.store.put_control(kind, name, value, expect=version or 0)

    def turn(self, name: str, state: BreakerState) -> None:
        known = next((each for each in self.store.controls("breaker") if each.name == name), None)
        breaker = Breaker(state=state, since=self.clock.now(), until=None, forced_by="ops", reason="for the test")
        self.store.put_control("breaker", name, encode(breaker), expect=known.version if known else 0)

    @property
    def has_limits(self) -> bool:
        """True if a task may have to wait for another one."""
        found = [task for task in self.store.get(self.ids) if task is not None]
        return bool(self.store.controls(LIMIT)) or any(task.rules.limit for task in found)

    def swept(self) -> None:
        while not self.store.sweep().quiet:
            pass

    def will_run(self) -> set[TaskId]:
        """What `why` sees no closed gate for."""
        found = [task for task in self.store.get(self.ids) if task is not None]
        return {task.id for task in found if not task.state.final and explain(self.store, task).closed is None}

    def claimed(self) -> set[TaskId]:
        """What a node gets that knows the breakers."""
        shut = [
            each.name
            for each in self.store.controls("breaker")
            if msgspec.json.decode(each.value).get("state", "closed") != "closed"
        ]
        can = Serves(handlers=frozenset(["work"]), labels=frozenset(["gpu"]), slots=2, shut=frozenset(shut))
        claims = self.store.claim(self.session(), QUEUES, 1_000, serves=can)
        return {claim.id for claim in claims}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_why_sees_no_gate_for_is_claimed_and_nothing_else(kind: str, tmp_path: Path) -> None:
    numbers = count()

    @settings(max_examples=600 if kind == "memory" else 60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(wanted=tasks, done=actions(STEPS, 12), ruled=actions(RULES, 6))
    def agree(wanted: list[dict[str, Any]], done: list[tuple[str, int]], ruled: list[tuple[str, int]]) -> None:
        clock = ManualClock()
        home = sqlite_home(tmp_path / f"{next(numbers)}.db") if kind == "sqlite" else None
        store = home.open(clock) if home else MemoryStore(clock=clock)
        shop = Shop(store, clock)
        shop.session()  # Somebody serves the queues.
        shop.submit(wanted)
        for action, number in [*done, *ruled]:
            shop.do(action, number)
        shop.swept()

        leased = {task.id for task in store.get(shop.ids) if task is not None and task.state is State.LEASED}
        foretold = shop.will_run() - leased
        claimed = shop.claimed()

        assert claimed <= foretold
        assert shop.will_run() - leased == claimed, "what was not claimed waits for what was"
        if not shop.has_limits:
            assert claimed == foretold
        if home is not None:
            home.close()

    agree()
