"""The table of all pages. A new module of pages is added here and nowhere else; the order is that of the navigation."""

from __future__ import annotations

from windlass.dashboard.page import Pages
from windlass.dashboard.pages import banners, now, tasks, tasks_bulk

MODULES: tuple[Pages, ...] = (now.pages, tasks.pages, tasks_bulk.pages, banners.pages)
