"""The table of all pages. A new module of pages is added here and nowhere else; the order is that of the navigation."""

from __future__ import annotations

from windlass.dashboard.page import Pages
from windlass.dashboard.pages import (
    audit,
    banners,
    crons,
    dead_letters,
    downstreams,
    lab,
    now,
    pool,
    queues,
    settings,
    task,
    tasks,
    tasks_bulk,
    tenants,
    workflows,
)

MODULES: tuple[Pages, ...] = (
    now.pages,
    tasks.pages,
    tasks_bulk.pages,
    task.pages,
    workflows.pages,
    queues.pages,
    downstreams.pages,
    tenants.pages,
    pool.pages,
    crons.pages,
    dead_letters.pages,
    lab.pages,
    audit.pages,
    settings.pages,
    banners.pages,
)
