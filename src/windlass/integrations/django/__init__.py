"""Windlass as a Django app: add `windlass.integrations.django` to `INSTALLED_APPS`.

>>> from windlass.integrations.django import app
>>> @app.task(queue="mail", retries=5)
... def send_welcome(user_id: int) -> None: ...

Its store is that of the setting `WINDLASS`, by default the project's own PostgreSQL database (`settings`). The worker,
`manage.py windlass_worker`, imports `tasks.py` of every installed app.
"""

from __future__ import annotations

from windlass.client.app import App
from windlass.integrations.django.settings import app_url

__all__ = ["app"]

app = App(app_url)
"""The app of the project. Its store is opened on first use."""
