"""The page Settings: tokens, how long things are kept, and what this server is."""

from __future__ import annotations

import platform
from datetime import timedelta
from importlib.metadata import version

from msgspec import Struct, field

from windlass.core.times import Micros, duration
from windlass.dashboard.forms import Named, read_number
from windlass.dashboard.page import Goto, Nav, Pages, Shown
from windlass.dashboard.visit import Visit
from windlass.distribution import DISTRIBUTION
from windlass.errors import InvalidTask
from windlass.operations import nodes, tokens
from windlass.operations.caller import Scope
from windlass.operations.node_about import About, read_about
from windlass.operations.nodes import NodeView
from windlass.operations.tokens import Token
from windlass.stores.coordination import AUDIT_KEPT
from windlass.stores.series import SECONDS_KEPT

SCOPES = {
    Scope.READ: "see tasks, queues, pools and the audit log",
    Scope.SUBMIT: "submit tasks",
    Scope.OPERATE: "read, and pause, retry, cancel, limit, resize",
    Scope.WORK: "run tasks over HTTP",
    Scope.ADMIN: "everything, tokens included",
}
NEVER = "never"

pages = Pages()


class NodeRow(Struct, frozen=True, kw_only=True):
    """A live node."""

    view: NodeView
    about: About


class SettingsPage(Struct, frozen=True, kw_only=True):
    """What can be read and set about this installation."""

    version: str
    python: str
    store_clock: Micros
    """The time of the store's clock, which decides about leases."""
    tasks: int
    nodes: list[NodeRow]
    tokens: dict[str, Token] | None
    """None for callers who may not see them."""
    can_admin: bool
    is_open: bool
    """True if no token was ever created, so that everybody on this machine may do everything."""
    scopes: dict[Scope, str]
    seconds_kept: timedelta = SECONDS_KEPT
    audit_kept: timedelta = AUDIT_KEPT


class NewToken(Struct, frozen=True, kw_only=True):
    """A token that was just created."""

    name: str
    secret: str
    token: Token


class CreateToken(Named, frozen=True, kw_only=True):
    """What a new token allows, to whom, and for how long."""

    scope: list[str] = field(default_factory=list)
    tenant: str = ""
    queue: str = ""
    expires: str = "90d"
    rate: str = ""


@pages.show("/settings", "settings.html", title="Settings", nav=Nav("Settings", "s"), unrestricted=True, personal=True)
def show_settings(visit: Visit) -> SettingsPage:
    """Show tokens, nodes and what this server is."""
    access = visit.access
    live = [view for view in nodes.get_all(access) if not view.session.lost]
    return SettingsPage(
        version=version(DISTRIBUTION),
        python=platform.python_version(),
        store_clock=access.whole_store.look([], ahead=timedelta(0)).now,
        tasks=sum(max(0, count.tasks) for count in access.counts()),
        nodes=[NodeRow(view=view, about=read_about(view.session)) for view in live],
        tokens=tokens.get_all(access) if visit.caller.may(Scope.ADMIN) else None,
        can_admin=visit.may(Scope.ADMIN),
        is_open=not tokens.is_closed(access.whole_store),
        scopes=SCOPES,
    )


@pages.act("/settings/tokens/create", scope=Scope.ADMIN, unrestricted=True)
def create_token(visit: Visit, form: CreateToken) -> Shown:
    """Create a token and show its secret once."""
    unknown = [scope for scope in form.scope if scope not in tuple(Scope)]
    if unknown:
        raise InvalidTask(f"scope={unknown[0]!r} is unknown. Use some of {', '.join(Scope)}.")
    name, rate = form.name.strip(), read_number("rate", form.rate)
    expires = form.expires.strip() or NEVER
    secret = tokens.create(
        visit.access,
        name,
        [Scope(scope) for scope in form.scope],
        visit.author(form.why),
        tenant=form.tenant.strip() or None,
        queue=form.queue.strip() or None,
        rate=None if rate is None else float(rate),
        lasts=None if expires == NEVER else duration(expires, "expires"),
    )
    token = tokens.get_all(visit.access)[name]
    page = NewToken(name=name, secret=secret, token=token)
    return Shown(template="new_token.html", title="New token", page=page, parent="/settings")


@pages.act("/settings/tokens/revoke", scope=Scope.ADMIN, unrestricted=True)
def revoke_token(visit: Visit, form: Named) -> Goto:
    """Revoke a token."""
    if not tokens.revoke(visit.access, form.name, visit.author(form.why)):
        raise InvalidTask(f"token={form.name!r} does not exist. It may have been revoked already.")
    return Goto(path="settings", text=f"Token {form.name} is revoked. Servers refuse it within two seconds.")
