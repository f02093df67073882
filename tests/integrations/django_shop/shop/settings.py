"""The settings of the project before Windlass is added: the guide's own lines are appended."""

from __future__ import annotations

import os
from pathlib import Path

import django
from psycopg.conninfo import conninfo_to_dict

BASE_DIR = Path(__file__).parents[1]
SECRET_KEY = "not secret"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["orders", *(["django_tasks"] if django.VERSION < (6, 0) else [])]

_given = conninfo_to_dict(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _given["dbname"],
        "USER": _given["user"],
        "HOST": _given["host"],
        "PORT": _given["port"],
    }
}
