"""A store in which a secret stands in every place that holds text."""

from __future__ import annotations

import json
from typing import Any

from tests.support.builders import a_pin, a_session, claim_one, report, submit_one
from windlass.autoscale.stored_state import OVERRIDES, POOL, PauseRequest, PoolDecision, PoolOverrides, encode_document
from windlass.core import breaker as rules
from windlass.core.breaker import Breaker, BreakerState
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Settlement
from windlass.core.task import Progress, SessionId, TaskId
from windlass.operations import tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

SECRET = "hunter2hunter2"
TEXT = f"password={SECRET} at postgresql://u:{SECRET}@db/x"
ARGS: dict[str, Any] = {"password": SECRET, "url": f"https://u:{SECRET}@host/", "pin": SECRET}
SCHEMA = {"type": "object", "additionalProperties": True, "properties": {"pin": {"type": "string", "x-secret": True}}}
ANN = Author("ann", TEXT)


class SecretStore:
    """What was planted, and where it is."""

    failed: TaskId
    done: TaskId
    session: SessionId
    group: str

    def __init__(self, store: Store) -> None:
        self.store = store
        access = Access(store)
        store.publish(
            Manifest(
                handlers=(HandlerInfo(name="mail", parameters=json.dumps(SCHEMA), returns=json.dumps(SCHEMA)),),
                crons=(CronInfo(name="daily", handler="mail", schedule="0 6 * * *", args=json.dumps(ARGS)),),
            )
        )
        store.configure(Queue(name="default", fair=True))
        self.failed = submit_one(store, handler="mail", args=ARGS, key="a", workflow="w")
        self.session = a_session(store, about=json.dumps({"token": SECRET, "queues": ["default"]}))
        store.report(self.session, json.dumps({"degraded": TEXT, "pools": {"mail": {"queues": ["default"]}}}))
        claim = claim_one(store, self.session)
        store.progress([Progress(lease=claim.lease, message=TEXT)])
        error = Error(kind="ValueError", message=TEXT, traceback=TEXT)
        report(store, claim, Raised(error, give_up=True))
        self.done = submit_one(store, handler="mail", args=ARGS, key="b", workflow="w")
        claim = claim_one(store, self.session)
        store.settle([(claim.lease, Settlement(state=State.COMPLETED, result=json.dumps(ARGS), log=TEXT))])
        for subject in ("x/y", "pool/mail"):
            store.note([Entry(subject=subject, action="z", text=TEXT, data=json.dumps({"token": SECRET}))])
        store.put_control(
            POOL,
            "mail",
            encode_document(PoolDecision(tick=1, target=1, queues=("default",), sentence=TEXT, reasons=(TEXT,))),
            expect=0,
        )
        [found] = store.dead_groups().groups
        self.group = found.id
        # Written past operations, which would remove the secret from a reason.
        store.configure(Queue(name="default", fair=True, paused=True, paused_by="ann", paused_why=TEXT))
        set_by = SetBy(by="ann", why=TEXT)
        limit = Limit(queue="default", max_running=0, set_by=set_by)
        store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
        tenant = Tenant(weight=2, weight_set_by=set_by, paused=set_by)
        store.put_control(TENANT, "default", encode_tenant(tenant), expect=0)
        store.pause_cron("daily", True, by="ann", why=TEXT)
        paused = PauseRequest(by="ann", at=0, why=TEXT)
        overrides = PoolOverrides(paused=paused, override=a_pin(1, 1e11, "ann", TEXT))
        store.put_control(OVERRIDES, "mail", encode_document(overrides), expect=0)
        held = rules.force(Breaker(), access.now, BreakerState.OPEN, by="ann", why=TEXT, until=None)
        store.put_control("breaker", "bank", rules.encode(held), expect=0)
        self.token = tokens.create(access, "ci", [Scope.ADMIN], ANN)


def leaks(value: object) -> bool:
    """Return True if the secret is anywhere in a value."""
    return SECRET in repr(value)
