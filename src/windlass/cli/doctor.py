"""`windlass doctor`: check the store and its machine for problems."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from windlass.cli.db import open_database
from windlass.cli.doctor_checks import Facts, run_checks
from windlass.cli.options import clock, config_option, json_options, open_access, url_option
from windlass.cli.output import echo, print_json, style
from windlass.config import read_settings
from windlass.core.lifecycle import State
from windlass.core.times import micros
from windlass.operations import tasks
from windlass.stores.admin import Admin, Status
from windlass.stores.protocol import Filter
from windlass.wire.commands import CheckResult, Mark

_COLORS = {Mark.GOOD: "green", Mark.WARNING: "yellow", Mark.BAD: "red"}
_MOST_LEASED = 1_000


@click.command()
@url_option
@json_options
@config_option
def doctor(store_url: str | None, form: str | None, config_path: Path | None) -> None:
    """Check versions, durability, disk, clocks, limits and long runs.

    Exit status 1 if a check fails (✗).
    """
    found = list(run_checks(gather_facts(store_url, open_database(store_url), config_path)))
    if not print_json(form, found, name="checks"):
        for each in found:
            echo(_line(each))
    if any(each.mark is Mark.BAD for each in found):
        raise SystemExit(1)


def gather_facts(url: str | None, admin: Admin, config_path: Path | None) -> Facts:
    """Read what the checks need. A store with an older schema is not opened, because that would migrate it."""
    status = admin.status()
    before = clock().now()
    there = admin.clock()
    now = clock().now()
    return Facts(
        status=status,
        skew=there - (before + now) // 2,
        ttl=micros(read_settings(config_path).session_ttl),
        nodes=status.sessions,
        now=now,
        rights=admin.rights(),
        **_disk(status),
        **_leased(url, status),
    )


def _leased(url: str | None, status: Status) -> dict[str, Any]:
    if not status.is_usable:
        return {}
    filter = Filter(states=frozenset({State.LEASED}))
    return {"leased": tasks.find(open_access(url), filter, limit=_MOST_LEASED).tasks}


def _disk(status: Status) -> dict[str, Any]:
    path = status.facts.get("path")
    if path is None:
        return {}
    usage = shutil.disk_usage(Path(path).parent)
    return {"filesystem": find_filesystem(Path(path), _mounts()), "free": usage.free, "disk": usage.total}


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text()
    except OSError:
        return ""


def find_filesystem(path: Path, mounts: str) -> str:
    """Return the kind of file system of a path: that of the longest mount point above it."""
    kinds = {fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    above = [str(each) for each in (path, *path.parents)]
    return next((kinds[each] for each in above if each in kinds), "")


def _line(each: CheckResult) -> str:
    mark = style(each.mark.value, fg=_COLORS[each.mark])
    fix = f"\n    → {each.fix}" if each.fix and each.mark is not Mark.GOOD else ""
    return f"{mark} {each.name:<12} {each.text}{fix}"
