"""What is wrong with the settings of a pool that sizes itself, for the file, the command line and the API alike."""

from __future__ import annotations

from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.settings import Settings

TIMES = ("wait", "idle", "service", "cooldown_up", "cooldown_down")
"""The settings that are seconds, and that people write as times."""


def faults(settings: Settings) -> list[str]:
    """Every fault, with the field, its value and what would be right."""
    found: list[str] = []
    if not 0.01 <= settings.wait <= 86_400:
        found.append(f"wait={settings.wait:g} is out of range; give 10 milliseconds to a day")
    if not 0 < settings.late < 1:
        found.append(f"late={settings.late:g} is no share; give more than 0 and less than 1")
    if settings.service <= 0:
        found.append(f"service={settings.service:g} is no run time; give more than 0")
    if settings.idle < 0:
        found.append(f"idle={settings.idle:g} is no time; give 0 or more")
    unknown = [name for name in settings.deciders if name not in DECIDERS]
    if unknown or not settings.deciders:
        named = ", ".join(unknown) or "none"
        found.append(f"deciders: {named} is not known; give some of {', '.join(DECIDERS)}")
    return found
