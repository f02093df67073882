"""The addresses of all pages, from the table of pages. A page with parameters needs an example here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from tests.browser.site import LONG, POOL, WORKFLOW, Site, start_purge
from windlass.core.lifecycle import State
from windlass.dashboard.pages.table import MODULES

Example = Callable[[Site], list[str]]

EDIT = urlencode({"changes": '{"note": "x"}'})

EXAMPLES: Mapping[str, Example] = {
    "/tasks": lambda site: ["tasks", "tasks?q=state%3Afailed", "tasks?q=nonsense%3A"],
    "/tasks/bulk": lambda site: ["tasks/bulk?verb=retry&all=1&q=state%3Afailed"],
    "/tasks/bulk/{run}": lambda site: [f"tasks/bulk/{start_purge(site)}"],
    "/tasks/{id}": lambda site: [
        f"tasks/{site.one(State.FAILED)}",
        f"tasks/{site.one(State.LEASED, 'hold')}",
        f"tasks/{site.one(State.COMPLETED, 'pack')}",
        f"tasks/{site.one(State.RUNNABLE)}",
    ],
    "/queues/{name}": lambda site: ["queues/fair", f"queues/{LONG}", "queues/paused"],
    "/tenants/{name}": lambda site: ["tenants/acme", "tenants/dora"],
    "/dead/{group}": lambda site: [
        f"dead/{site.group().id}",
        f"dead/{site.group().id}?{EDIT}",
        f"dead/{site.group().id}?changes=wrong",
    ],
    "/audit": lambda site: ["audit", "audit?subject=queue%2F&by=ops&text=paused", "audit?text=nothing-like-this"],
    "/pool": lambda site: ["pool", f"pool?name={POOL}"],
    "/workflows/view": lambda site: [
        f"workflows/view?{urlencode({'name': WORKFLOW, 'tenant': 'acme', 'show': view})}"
        for view in ("graph", "gantt", "table")
    ],
}


def find_addresses(site: Site) -> list[str]:
    """Return an address of every page, without a leading slash; several for pages that can look different."""
    found: list[str] = []
    for page in (page for module in MODULES for page in module.pages):
        assert page.path in EXAMPLES or "{" not in page.path, f"{page.path} needs an example in {__name__}"
        found += EXAMPLES[page.path](site) if page.path in EXAMPLES else [page.path.lstrip("/")]
    return found
