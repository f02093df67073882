"""`windlass config`: show all settings and their origin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import click
import yaml
from msgspec.structs import asdict

from windlass.cli.options import config_option, json_options, url_option
from windlass.cli.output import print_json, print_table
from windlass.config import FileSettings, PoolSettings, read_settings
from windlass.core.times import format_duration, micros
from windlass.redaction import HIDDEN, is_secret, redact_text
from windlass.store_choice import choose_store
from windlass.wire.commands import Setting

_FROM_ENVIRONMENT = ("WINDLASS_LISTEN_URL", "WINDLASS_TZ", "NO_COLOR")


@click.group()
def config() -> None:
    """Show all settings and their origin."""


@config.command()
@url_option
@json_options
@config_option
@click.option("--origin", is_flag=True, help="Show where each setting comes from.")
def show(store_url: str | None, form: str | None, config_path: Path | None, origin: bool) -> None:
    """Show the settings of the file, the environment and the flags, without secrets."""
    settings = read_settings(config_path)
    file = config_path or Path("windlass.yaml")
    store = choose_store(store_url, config=config_path)
    found = [_setting("store", store.url, store.origin), *_file_settings(settings, file), *_environment()]
    if print_json(form, found, name="settings"):
        return
    heads = ("setting", "value", "origin") if origin else ("setting", "value")
    print_table(heads, [[each.name, _format(each.value), each.origin][: len(heads)] for each in found])


def _file_settings(settings: FileSettings, file: Path) -> Iterator[Setting]:
    raw = _raw(file)
    for name, value in asdict(settings).items():
        if name in ("store", "pools", "budget"):
            continue
        yield _setting(name, value, str(file) if name in raw else "default")
    for name, value in asdict(settings.budget).items():
        yield _setting(f"budget.{name}", value, str(file) if name in _inside(raw, "budget") else "default")
    for pool in settings.pools or (PoolSettings(),):
        yield from _pool_settings(pool, _inside(_inside(raw, "pools"), pool.name), file)


def _pool_settings(pool: PoolSettings, raw: Mapping[str, Any], file: Path) -> Iterator[Setting]:
    for name, value in asdict(pool).items():
        if name == "name":
            continue
        if name == "scale":
            scale = _inside(raw, "scale")
            for field, part in asdict(value).items():
                # The bounds of a pool are its own min and max.
                if field not in ("min", "max"):
                    origin = str(file) if field in scale else "default"
                    yield _setting(f"pools.{pool.name}.scale.{field}", part, origin)
            continue
        yield _setting(f"pools.{pool.name}.{name}", value, str(file) if name in raw else "default")


def _environment() -> Iterator[Setting]:
    for name in _FROM_ENVIRONMENT:
        if name in os.environ:
            yield _setting(name, os.environ[name], f"${name}")


def _raw(file: Path) -> Mapping[str, Any]:
    """Return the raw content of the file, which has been checked already."""
    found: object = yaml.safe_load(file.read_text()) if file.exists() else None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _inside(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _setting(name: str, value: object, origin: str) -> Setting:
    return Setting(name=name, value=HIDDEN if is_secret(name) else _plain(value), origin=origin)


def _plain(value: object) -> Any:
    """Return a value as plain JSON without secrets. Durations are text, as in the settings file."""
    match value:
        case None | bool() | int() | float():
            return value
        case timedelta():
            return format_duration(micros(value))
        case tuple() | list():
            return [_plain(each) for each in cast("tuple[object, ...]", value)]
        case _:
            return redact_text(str(value)) or None


def _format(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return str(value).lower()
        case tuple() | list():
            return ", ".join(map(_format, cast("tuple[object, ...]", value))) or "–"
        case _:
            return str(value) or "–"
