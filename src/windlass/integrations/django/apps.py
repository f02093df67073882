"""The Django app `windlass.integrations.django`."""

from __future__ import annotations

from django.apps import AppConfig


class WindlassConfig(AppConfig):
    """Registers the system checks. It has no models: the store creates and migrates its own tables."""

    name = "windlass.integrations.django"
    label = "windlass"
    verbose_name = "Windlass"

    def ready(self) -> None:
        from windlass.integrations.django import checks  # noqa: F401  # pyright: ignore[reportUnusedImport]
