"""The page Tenant, and limits: what a tenant got, its weight, its pause, and limits of any scope."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.limit_text import describe_scope
from windlass.core.limits import Limit, parse_rate
from windlass.dashboard.forms import Named, NamedLasting, Reason, go_back, read_duration, read_number
from windlass.dashboard.page import Goto, Pages
from windlass.dashboard.visit import Visit
from windlass.operations import audit, limits, tenants
from windlass.operations.limits import LimitView
from windlass.operations.shares import TenantShare
from windlass.operations.tenants import TenantView
from windlass.stores.coordination import EntrySeen

CHANGES = 10

pages = Pages()


class TenantPage(Struct, frozen=True, kw_only=True):
    """One tenant."""

    view: TenantView
    shares: list[TenantShare]
    limits: list[LimitView]
    changes: list[EntrySeen]
    can_limit: bool


class Weigh(NamedLasting, frozen=True, kw_only=True):
    """The weight of a tenant; empty for the default."""

    weight: str = ""


class SetLimit(Reason, frozen=True, kw_only=True):
    """A limit and its scope."""

    queue: str = ""
    tenant: str = ""
    handler: str = ""
    key: str = ""
    max_running: str = ""
    rate: str = ""
    lasts: str = ""


class RemoveLimit(Reason, frozen=True, kw_only=True):
    """The scope of a limit."""

    queue: str = ""
    tenant: str = ""
    handler: str = ""
    key: str = ""


@pages.show("/tenants/{name}", "tenant.html", title="Tenant")
def show_tenant(visit: Visit, name: str) -> TenantPage:
    """Show one tenant."""
    access = visit.access
    view = tenants.get(access, name)
    return TenantPage(
        view=view,
        shares=tenants.get_shares(access, name),
        limits=[view for view in limits.get_all(access) if view.limit.tenant == name],
        changes=[] if visit.caller.limited else audit.find(access, f"tenant/{name}", limit=CHANGES).entries,
        can_limit=visit.can_operate and not visit.caller.limited,
    )


@pages.act("/tenants/weight", unrestricted=True)
def set_weight(visit: Visit, form: Weigh) -> Goto:
    """Set the weight of a tenant."""
    weight, lasts = read_number("weight", form.weight), read_duration("for", form.lasts)
    view = tenants.set_weight(visit.access, form.name, weight, visit.author(form.why), lasts=lasts)
    return go_back(form, f"tenants/{form.name}", f"Tenant {form.name} has weight {view.settings.weight} now.")


@pages.act("/tenants/pause", unrestricted=True)
def pause(visit: Visit, form: NamedLasting) -> Goto:
    """Pause a tenant."""
    tenants.pause(visit.access, form.name, visit.author(form.why), lasts=read_duration("for", form.lasts))
    return go_back(form, f"tenants/{form.name}", f"Tenant {form.name} is paused in all queues. Running tasks continue.")


@pages.act("/tenants/resume", unrestricted=True)
def resume(visit: Visit, form: Named) -> Goto:
    """Resume a tenant."""
    tenants.resume(visit.access, form.name, visit.author(form.why))
    return go_back(form, f"tenants/{form.name}", f"Tenant {form.name} is resumed.")


@pages.act("/limits/set")
def set_limit(visit: Visit, form: SetLimit) -> Goto:
    """Set a limit on a queue, a tenant, both, a handler or a key."""
    limit = Limit(
        queue=form.queue.strip() or None,
        tenant=form.tenant.strip() or None,
        handler=form.handler.strip() or None,
        key=form.key.strip() or None,
        max_running=read_number("max_running", form.max_running),
        rate=parse_rate(form.rate) if form.rate.strip() else None,
    )
    lasts = read_duration("for", form.lasts)
    limits.put(visit.access, limit, visit.author(form.why), lasts=lasts)
    return go_back(form, "queues", f"The limit on {describe_scope(limit)} is set.")


@pages.act("/limits/remove")
def remove_limit(visit: Visit, form: RemoveLimit) -> Goto:
    """Remove a limit."""
    scope = Limit(
        queue=form.queue or None, tenant=form.tenant or None, handler=form.handler or None, key=form.key or None
    )
    limits.remove(visit.access, scope, visit.author(form.why))
    return go_back(form, "queues", f"The limit on {describe_scope(scope)} is removed.")
