"""The table of all pages. A new module of pages is added here and nowhere else; the order is that of the navigation."""

from __future__ import annotations

from windlass.dashboard.page import Pages
from windlass.dashboard.pages import banners, lab, now, pool, task, tasks, tasks_bulk, workflows

MODULES: tuple[Pages, ...] = (
    now.pages,
    tasks.pages,
    tasks_bulk.pages,
    task.pages,
    workflows.pages,
    pool.pages,
    lab.pages,
    banners.pages,
)
