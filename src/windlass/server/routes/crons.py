"""Crons by hand, and tenants: when a schedule runs next, running it now, and on whose behalf tasks are there."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim
from msgspec import Meta, Struct

from windlass.core.manifest import CronInfo
from windlass.core.times import to_datetime
from windlass.errors import UnknownCron
from windlass.operations.caller import Scope
from windlass.operations.tenants import TenantRow, by_tenant
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.routes.manifest import CronName
from windlass.server.routes.tasks import receipt
from windlass.wire.schemas import NO_REASON, Reason, Receipt

route = Routes("manifest")


class HowMany(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times."""

    n: Annotated[int, Meta(ge=1, le=1_000)] = 5


class NextTimes(Struct, frozen=True, kw_only=True):
    """When a schedule runs next, in its own time zone; what is paused runs at none of these."""

    cron: str
    paused: bool
    times: list[datetime]


@route(
    "POST",
    "/crons/{name}/run",
    Scope.OPERATE,
    status=201,
    unrestricted=True,
    errors=["unknown_cron", "unknown_handler"],
)
def run_cron(call: Call, name: CronName, body: Reason = NO_REASON) -> Receipt:
    """Submit a cron's task now, beside its schedule, which goes on as if nothing had been."""
    info = _cron(call, name)[0]
    [written] = call.store.submit([call.handlers.info(info.handler).new_task(msgspec.json.decode(info.args))])
    text = f"ran the cron {name} by hand{': ' if body.why else ''}{body.why}"
    call.note(f"cron/{name}", "ran", text, task=str(written.id))
    return receipt(written)


@route("GET", "/crons/{name}/next", Scope.READ, unrestricted=True, errors=["unknown_cron"])
def next_times(call: Call, name: CronName, query: HowMany) -> NextTimes:
    """When a cron runs next."""
    info, paused = _cron(call, name)
    now = to_datetime(call.now).astimezone(ZoneInfo(info.timezone))
    return NextTimes(cron=name, paused=paused, times=list(islice(CronSim(info.schedule, now), query.n)))


@route("GET", "/tenants", Scope.READ)
def list_tenants(call: Call) -> list[TenantRow]:
    """Every tenant that has tasks: how many in each state, and in which queues."""
    who = call.caller
    return by_tenant(
        count
        for count in call.store.counts()
        if who.tenant in (None, count.tenant) and who.queue in (None, count.queue)
    )


def _cron(call: Call, name: str) -> tuple[CronInfo, bool]:
    found = next((each for each in call.store.crons() if each.info.name == name), None)
    if found is None:
        raise UnknownCron(name)
    return found.info, found.paused
