"""What is wrong with the settings of a pool that sizes itself, for the file, the command line and the API alike."""

from __future__ import annotations

import re

from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.settings import Settings
from windlass.situation import PREFIX

TIME_SETTINGS = ("wait", "idle", "service", "cooldown_up", "cooldown_down")
"""The settings that are seconds, and that people write as times."""

_OWN = re.compile(rf"{PREFIX}[A-Za-z_]\w{{0,99}}")

DAY, LONGEST = 86_400, 31 * 86_400


def find_setting_errors(settings: Settings) -> list[str]:
    """Every fault, with the field, its value and what would be right."""
    found: list[str] = []
    if not 0.01 <= settings.wait <= 86_400:
        found.append(f"wait={settings.wait:g} is out of range; give 10 milliseconds to a day")
    if not 0 < settings.late < 1:
        found.append(f"late={settings.late:g} is no share; give more than 0 and less than 1")
    if not 0 < settings.service <= LONGEST:
        found.append(f"service={settings.service:g} is no run time; give more than 0, and no more than a month")
    if not 0 <= settings.idle <= LONGEST:
        found.append(f"idle={settings.idle:g} is no time; give 0 to a month")
    for window in settings.windows:
        if not (0 <= window.begin < DAY and 0 <= window.end <= DAY and window.least >= 0):
            told = f"begin={window.begin:g}, end={window.end:g}, least={window.least}"
            found.append(f"windows: {told} is none; give seconds of the day, and a size of 0 or more")
        if not window.least and window.most is None:
            found.append(f"windows: that from {window.begin:g} to {window.end:g} has no size; give least, most or both")
    for field in ("step_up", "step_down"):
        step: int | None = getattr(settings, field)
        if step is not None and step < 1:
            found.append(f"{field}={step} is no step; give 1 or more, or none")
    for field in ("cooldown_up", "cooldown_down"):
        rest: float = getattr(settings, field)
        if not 0 <= rest <= LONGEST:
            found.append(f"{field}={rest:g} is no time; give 0 to a month")
    unknown = [name for name in settings.deciders if name not in DECIDERS and not _OWN.fullmatch(name)]
    if unknown or not settings.deciders:
        named = ", ".join(unknown) or "none"
        known = ", ".join(DECIDERS)
        found.append(f"deciders: {named} is not known; give some of {known}, or {PREFIX}NAME for a function of the app")
    return found
