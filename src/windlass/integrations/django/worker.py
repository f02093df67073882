"""What workers of a Django project import: the project, and `tasks.py` of every installed app."""

# Django has no types.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import django
from django.utils.module_loading import autodiscover_modules

from windlass.integrations.django import app
from windlass.integrations.django.settings import read_project_settings

__all__ = ["APP_PATH", "app"]

APP_PATH = "windlass.integrations.django.worker:app"
"""The app, as `windlass worker` takes it. `$DJANGO_SETTINGS_MODULE` names the project."""

django.setup()
autodiscover_modules(*read_project_settings().modules)
