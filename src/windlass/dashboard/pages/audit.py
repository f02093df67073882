"""The page Audit: who did what, and undoing it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from windlass.dashboard.forms import Reason, go_back
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.visit import Visit
from windlass.operations import audit, undo
from windlass.stores.coordination import EntrySeen

SHOWN = 50
KINDS = (
    "task/",
    "tasks",
    "queue/",
    "tenant/",
    "limit/",
    "pool/",
    "breaker/",
    "cron/",
    "dead/",
    "workflow/",
    "token/",
    "manifest",
    "database",
)
"""The subjects that the filter offers. One that ends with a slash stands for all that begin with it."""
LINKS = {"task": "tasks", "queue": "queues", "tenant": "tenants", "dead": "dead"}
"""The pages of subjects, by kind, that have the name in their path."""
NAMED = {"pool": "pool", "workflow": "workflows/view"}
"""The pages of subjects, by kind, that take the name as a parameter."""

pages = Pages()


class FindEntries(Struct, frozen=True, kw_only=True):
    """Which entries to show."""

    subject: str = ""
    by: str = ""
    text: str = ""
    before: Annotated[int, Meta(ge=0)] | None = None


class Numbers(Reason, frozen=True, kw_only=True):
    """Which entries to undo."""

    number: list[Annotated[int, Meta(ge=0, le=2**62)]]


class _About(Struct, frozen=True):
    """The part of an entry's data that says where its subject is."""

    tenant: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """An entry, and the address of its subject; empty if it has no page."""

    entry: EntrySeen
    href: str
    can_undo: bool
    """Whether it can be undone, as far as the entries on this page show."""


class Entries(Struct, frozen=True, kw_only=True):
    """A page of the audit log."""

    query: FindEntries
    rows: list[Row]
    after: int | None
    """Where the next page begins."""
    kinds: tuple[str, ...] = KINDS

    @property
    def is_filtered(self) -> bool:
        """True if some entries are left out."""
        return bool(self.query.subject or self.query.by or self.query.text)


@pages.show("/audit", "audit.html", title="Audit", nav=Nav("Audit", "a"), unrestricted=True)
def show_audit(visit: Visit, query: FindEntries) -> Entries:
    """Show what people and the autoscaler did, newest first."""
    found = audit.search(
        visit.access,
        query.subject.strip() or None,
        by=query.by.strip(),
        text=query.text.strip(),
        limit=SHOWN,
        before=query.before,
    )
    undoable = undo.find_undoable(found.entries)
    rows = [
        Row(entry=entry, href=find_page(visit, entry), can_undo=entry.number in undoable) for entry in found.entries
    ]
    return Entries(query=query, rows=rows, after=found.after)


@pages.act("/audit/undo")
def undo_entries(visit: Visit, form: Numbers) -> Goto:
    """Undo what entries record. Stop at the first one for which that is not possible."""
    done = [undo.undo(visit.access, number, visit.author(form.why)) for number in form.number]
    if len(done) == 1:
        return go_back(form, "audit", f"Undid #{done[0].number}: {done[0].text}.")
    return go_back(form, "audit", f"Undid {len(done)} entries.")


def find_page(visit: Visit, entry: EntrySeen) -> str:
    """Return the address of an entry's subject; empty if it has no page."""
    kind, _, name = entry.subject.partition("/")
    if not name:
        return ""
    if kind == "cron":
        return f"{visit.url('cron')}#cron-{quote(name)}"
    if kind in NAMED:
        return visit.url(NAMED[kind], name=name, tenant=_tenant_of(entry) if kind == "workflow" else "")
    return visit.url(f"{LINKS[kind]}/{name}") if kind in LINKS else ""


def _tenant_of(entry: EntrySeen) -> str:
    """Return the tenant that an entry about a workflow names. Without one, its page finds the workflow by its name."""
    try:
        return msgspec.json.decode(entry.data or "{}", type=_About).tenant
    except msgspec.MsgspecError:
        return ""
