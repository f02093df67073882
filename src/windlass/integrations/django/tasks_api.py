"""The tasks API of Django: `django.tasks` from Django 6 on, and the package django-tasks before."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from django.conf import settings

BACKEND = "windlass.integrations.django.backend.WindlassBackend"


def find_api() -> str:
    """Return the name of the package with the tasks API. Raise `ModuleNotFoundError` if there is none."""
    try:
        import_module("django.tasks")
    except ModuleNotFoundError:
        try:
            import_module("django_tasks")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "The tasks API needs Django 6, or the package django-tasks: pip install django-tasks"
            ) from error
        return "django_tasks"
    return "django.tasks"


def api(name: str) -> Any:
    """Return a module of the tasks API, such as `base`."""
    return import_module(f"{find_api()}.{name}" if name else find_api())


def find_backends() -> dict[str, dict[str, Any]]:
    """Return the settings of the backends in `TASKS` that are Windlass, by alias."""
    raw: object = getattr(settings, "TASKS", None)
    given = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    return {
        alias: cast("dict[str, Any]", one)
        for alias, one in given.items()
        if isinstance(one, dict) and cast("dict[str, Any]", one).get("BACKEND") == BACKEND
    }


def find_queues() -> set[str]:
    """Return the queues that the Windlass backends accept tasks for."""
    return {str(queue) for one in find_backends().values() for queue in one.get("QUEUES", ())}
