"""`windlass config`: every setting, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import click
import yaml
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import asdict

from windlass.cli.output import form_options, print_json_form, table
from windlass.cli.stores import store_option
from windlass.config import FileSettings, PoolSettings, read_settings
from windlass.core.times import format_duration, micros
from windlass.redaction import HIDDEN, is_secret, redact_text
from windlass.wiring import DEFAULT_URL

_FROM_ENVIRONMENT = ("WINDLASS_LISTEN_URL", "WINDLASS_TZ", "NO_COLOR")


class Setting(Struct, frozen=True, kw_only=True):
    """One setting as it is in force, and who said so."""

    name: str
    value: str
    origin: str
    """`default`, the name of the file, `$VARIABLE`, or the flag."""


@click.group()
def config() -> None:
    """See every setting, and where it comes from."""


@config.command()
@store_option
@form_options
@click.option("--config", "path", type=click.Path(path_type=Path), help="Settings file.  [default: windlass.yaml]")
@click.option("--origin", is_flag=True, help="Also where each comes from.")
def show(store_url: str | None, form: str | None, path: Path | None, origin: bool) -> None:
    """Every setting of the file, the environment and the flags, without what is secret."""
    source = click.get_current_context().get_parameter_source("store_url")
    settings = read_settings(path)
    chosen = path or Path("windlass.yaml")
    found = [_store(store_url, source, settings, chosen), *_of_file(settings, chosen), *_of_environment()]
    if print_json_form(form, found):
        return
    heads = ("setting", "value", "origin") if origin else ("setting", "value")
    table(heads, [[each.name, each.value, each.origin][: len(heads)] for each in found])


def _store(url: str | None, source: ParameterSource | None, settings: FileSettings, file: Path) -> Setting:
    """A flag counts more than the environment, that more than the file, that more than the default."""
    if url is not None:
        origin = "--store" if source is ParameterSource.COMMANDLINE else "$WINDLASS_URL"
        return _setting("store", url, origin)
    if settings.store is not None:
        return _setting("store", settings.store, str(file))
    return _setting("store", DEFAULT_URL, "default")


def _of_file(settings: FileSettings, file: Path) -> Iterator[Setting]:
    raw = _raw(file)
    for name, value in asdict(settings).items():
        if name in ("store", "pools", "budget"):
            continue
        yield _setting(name, value, str(file) if name in raw else "default")
    for name, value in asdict(settings.budget).items():
        yield _setting(f"budget.{name}", value, str(file) if name in _inside(raw, "budget") else "default")
    for pool in settings.pools or (PoolSettings(),):
        yield from _of_pool(pool, _inside(_inside(raw, "pools"), pool.name), file)


def _of_pool(pool: PoolSettings, raw: Mapping[str, Any], file: Path) -> Iterator[Setting]:
    for name, value in asdict(pool).items():
        if name == "name":
            continue
        if name == "scale":
            said = _inside(raw, "scale")
            for field, part in asdict(value).items():
                # The bounds of a pool are its own min and max.
                if field not in ("floor", "ceiling"):
                    origin = str(file) if field in said else "default"
                    yield _setting(f"pools.{pool.name}.scale.{field}", part, origin)
            continue
        yield _setting(f"pools.{pool.name}.{name}", value, str(file) if name in raw else "default")


def _of_environment() -> Iterator[Setting]:
    for name in _FROM_ENVIRONMENT:
        if name in os.environ:
            yield _setting(name, os.environ[name], f"${name}")


def _raw(file: Path) -> Mapping[str, Any]:
    """The file as it is written; it has been read and checked already."""
    found: object = yaml.safe_load(file.read_text()) if file.exists() else None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _inside(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _setting(name: str, value: object, origin: str) -> Setting:
    return Setting(name=name, value=HIDDEN if is_secret(name) else redact_text(_shown(value)), origin=origin)


def _shown(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return str(value).lower()
        case timedelta():
            return format_duration(micros(value))
        case tuple() | list():
            return ", ".join(map(str, cast("tuple[object, ...]", value))) or "–"
        case _:
            return str(value) or "–"
