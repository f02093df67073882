"""`windlass deploy`: files for those who run it, printed, or written to a folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from windlass.config import InvalidSettings
from windlass.core.times import duration
from windlass.deploy import render
from windlass.deploy.plan import Plan

Decorated = Callable[..., Any]

app_option = click.option("--app", default="shop:app", show_default=True, help="What `windlass worker` runs.")
image_option = click.option("--image", default="shop:latest", show_default=True, help="The image with your app in it.")
pool_option = click.option("--pool", default="default", show_default=True, help="The pool, and the queue of its name.")
most_option = click.option("--max", "most", default=8, show_default=True, help="The most workers on one node.")
nodes_option = click.option("--nodes", default=10, show_default=True, help="The most nodes.")
namespace_option = click.option("--namespace", default="default", show_default=True, help="Where in Kubernetes.")
drain_option = click.option(
    "--drain-timeout", "drain", default="60s", show_default=True, metavar="TIME", help="For how long tasks may end."
)
folder_option = click.option(
    "-o", "--output", "output", type=click.Path(path_type=Path, file_okay=False), help="Write into this folder."
)
force_option = click.option("--force", is_flag=True, help="Overwrite files that are there.")


def _together(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


output_options = _together(folder_option, force_option)
cluster_options = _together(
    app_option, image_option, pool_option, most_option, nodes_option, namespace_option, drain_option
)


@click.group()
def deploy() -> None:
    """Print the files that it takes to run and watch Windlass elsewhere."""


@deploy.command()
@output_options
def grafana(output: Path | None, force: bool) -> None:
    """A dashboard: import it into Grafana."""
    _give(render.grafana(Plan()), output, force)


@deploy.command()
@output_options
def alerts(output: Path | None, force: bool) -> None:
    """Alert rules for Prometheus."""
    _give(render.alerts(Plan()), output, force)


@deploy.command()
@click.argument("role", type=click.Choice(["worker", "server"]), default="worker")
@_together(app_option, pool_option, most_option, drain_option, output_options)
@click.option("--store", metavar="URL", help="Where the tasks live, without a password.")
@click.option("--bin", "command", help="The command `windlass`.  [default: this one]")
@click.option("--folder", default="/opt/windlass", show_default=True, help="Where the app is.")
def systemd(role: str, command: str | None, drain: str, output: Path | None, force: bool, **given: Any) -> None:
    """A unit for systemd: of a node, or of the HTTP server."""
    _give(render.systemd(_plan(drain, command=command or _here(), **given), role), output, force)


@deploy.command()
@_together(app_option, image_option, pool_option, most_option, drain_option, output_options)
def compose(drain: str, output: Path | None, force: bool, **given: Any) -> None:
    """A compose file: PostgreSQL, the HTTP server and nodes on one machine."""
    _give(render.compose(_plan(drain, **given)), output, force)


@deploy.command()
@_together(cluster_options, output_options)
@click.option("--hpa", "plain", is_flag=True, help="A plain HorizontalPodAutoscaler in KEDA's place.")
def keda(drain: str, plain: bool, output: Path | None, force: bool, **given: Any) -> None:
    """Manifests for Kubernetes: the server, nodes, and KEDA to say how many."""
    _give(render.keda(_plan(drain, **given), plain=plain), output, force)


@deploy.command()
@_together(cluster_options, output_options)
def helm(drain: str, output: Path | None, force: bool, **given: Any) -> None:
    """The same as a Helm chart, in a folder."""
    if output is None:
        raise click.UsageError("a chart is a folder: say which, as in `windlass deploy helm -o chart`")
    _give(render.helm(_plan(drain, **given)), output, force)


def _plan(drain: str, **given: Any) -> Plan:
    plan = Plan(**given, drain=_length(drain))
    plan.check()
    return plan


def _here() -> str:
    """The command that stands beside this Python."""
    beside = Path(sys.executable).with_name("windlass")
    return str(beside) if beside.exists() else shutil.which("windlass") or Plan().command


def _length(text: str) -> timedelta:
    return duration(text, "drain_timeout")


def _give(found: Mapping[str, str], output: Path | None, force: bool) -> None:
    """Print the files, or write them. Files are told apart as YAML does it: only manifests come in several."""
    if output is None:
        click.echo("---\n".join(found.values()), nl=False)
        return
    there = [name for name in found if (output / name).exists()]
    if there and not force:
        raise InvalidSettings(f"deploy: {', '.join(there)}: there already in {output}; --force overwrites")
    for name, text in found.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(text)
        click.echo(f"wrote {output / name}", err=True)
