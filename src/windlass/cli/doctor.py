"""`windlass doctor`: what may be wrong with the store and its surroundings, and what to do about it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from windlass.cli.db import admin_of
from windlass.cli.doctor_checks import Diagnosis, Mark, Measured, diagnose
from windlass.cli.output import coloured, form_options, print_json_form
from windlass.cli.stores import clock, opened, store_option
from windlass.config import read_settings
from windlass.core.lifecycle import State
from windlass.core.times import micros
from windlass.stores.admin import Admin, Status
from windlass.stores.protocol import Filter

_COLOURS = {Mark.GOOD: "green", Mark.DOUBT: "yellow", Mark.BAD: "red"}
_LOOKED_AT = 1_000


@click.command()
@store_option
@form_options
@click.option("--config", type=click.Path(path_type=Path), help="Settings file.  [default: windlass.yaml if there]")
def doctor(store_url: str | None, form: str | None, config: Path | None) -> None:
    """Look at versions, durability, disk, clocks, limits and long runs. Exit status 1 if something is ✗."""
    found = list(diagnose(measured(store_url, admin_of(store_url), config)))
    if not print_json_form(form, found):
        for each in found:
            click.echo(_line(each))
    if any(each.mark is Mark.BAD for each in found):
        raise SystemExit(1)


def measured(url: str | None, admin: Admin, config: Path | None) -> Measured:
    """What there is to be seen. A store whose tables are not of this version is not opened: that would change them."""
    status = admin.status()
    before = clock().now()
    there = admin.clock()
    now = clock().now()
    return Measured(
        status=status,
        skew=there - (before + now) // 2,
        ttl=micros(read_settings(config).session_ttl),
        nodes=status.sessions,
        now=now,
        **_disk(status),
        **_leased(url, status),
    )


def _leased(url: str | None, status: Status) -> dict[str, Any]:
    if status.schema != status.newest:
        return {}
    filter = Filter(states=frozenset({State.LEASED}))
    return {"leased": opened(url).find(filter, limit=_LOOKED_AT).tasks}


def _disk(status: Status) -> dict[str, Any]:
    path = status.facts.get("path")
    if path is None:
        return {}
    usage = shutil.disk_usage(Path(path).parent)
    return {"filesystem": filesystem(Path(path), _mounts()), "free": usage.free, "disk": usage.total}


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text()
    except OSError:
        return ""


def filesystem(path: Path, mounts: str) -> str:
    """What kind of file system a path is on: that of the longest mount point above it."""
    kinds = {fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    above = [str(each) for each in (path, *path.parents)]
    return next((kinds[each] for each in above if each in kinds), "")


def _line(each: Diagnosis) -> str:
    mark = click.style(each.mark.value, fg=_COLOURS[each.mark]) if coloured() else each.mark.value
    fix = f"\n    → {each.fix}" if each.fix and each.mark is not Mark.GOOD else ""
    return f"{mark} {each.name:<12} {each.text}{fix}"
