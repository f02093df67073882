"""`windlass deploy`: print or write files for deployment and monitoring."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from windlass.cli.options import STORE_HELP, app_option, drain_timeout_option, max_option
from windlass.config import InvalidSettings
from windlass.core.times import duration
from windlass.deploy import render
from windlass.deploy.plan import Plan

Decorated = Callable[..., Any]

image_option = click.option("--image", default="shop:latest", show_default=True, help="Container image with your app.")
pool_option = click.option("--pool", default="default", show_default=True, help="Pool of the node.")
nodes_option = click.option("--nodes", default=10, show_default=True, help="Most nodes.")
namespace_option = click.option("--namespace", default="default", show_default=True, help="Kubernetes namespace.")
folder_option = click.option(
    "-o", "--output", "output", type=click.Path(path_type=Path, file_okay=False), help="Write into this folder."
)
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")
node_options = (app_option("shop:app"), pool_option, max_option(8), drain_timeout_option("60s"))


def _together(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


output_options = _together(folder_option, force_option)
cluster_options = _together(*node_options, image_option, nodes_option, namespace_option)


@click.group()
def deploy() -> None:
    """Print files for deployment and monitoring."""


@deploy.command()
@output_options
def grafana(output: Path | None, force: bool) -> None:
    """Print a Grafana dashboard."""
    _output(render.grafana(Plan()), output, force)


@deploy.command()
@output_options
def alerts(output: Path | None, force: bool) -> None:
    """Print Prometheus alert rules."""
    _output(render.alerts(Plan()), output, force)


@deploy.command()
@click.argument("role", type=click.Choice(["worker", "server"]), default="worker")
@_together(*node_options, output_options)
@click.option("--store", metavar="URL", help=STORE_HELP)
@click.option("--bin", "command", help="Path of the windlass command.  [default: this one]")
@click.option("--folder", default="/opt/windlass", show_default=True, help="Folder of the app.")
def systemd(role: str, command: str | None, drain_timeout: str, output: Path | None, force: bool, **given: Any) -> None:
    """Print a systemd unit for a node or the HTTP server.

    Do not put a password into --store: the unit is readable by everyone.
    """
    _output(render.systemd(_plan(drain_timeout, command=command or _find_command(), **given), role), output, force)


@deploy.command()
@_together(*node_options, image_option, output_options)
def compose(drain_timeout: str, output: Path | None, force: bool, **given: Any) -> None:
    """Print a compose file with PostgreSQL, the HTTP server and nodes."""
    _output(render.compose(_plan(drain_timeout, **given)), output, force)


@deploy.command()
@click.option("--role", default="windlass", show_default=True, help="Name of the role.")
@click.option("--database", default="windlass", show_default=True, help="Name of the database.")
@output_options
def role(role: str, database: str, output: Path | None, force: bool) -> None:
    """Print SQL that creates a PostgreSQL database and a role that is not a superuser."""
    plan = Plan(role=role, database=database)
    plan.check()
    _output(render.role(plan), output, force)


@deploy.command()
@click.option("--owner", default="windlass", show_default=True, help="Role that owns the tables.")
@click.option("--database", default="windlass", show_default=True, help="Name of the database.")
@click.option("--prefix", default="windlass", show_default=True, help="Start of the names: PREFIX_node, _api, _read.")
@output_options
def roles(owner: str, database: str, prefix: str, output: Path | None, force: bool) -> None:
    """Print SQL that creates PostgreSQL roles for nodes, the API and readers.

    Each has only the rights that its statements need. None can change the schema.
    """
    plan = Plan(owner=owner, database=database, prefix=prefix)
    plan.check()
    _output(render.roles(plan), output, force)


@deploy.command()
@_together(cluster_options, output_options)
@click.option("--hpa", "plain", is_flag=True, help="Use a HorizontalPodAutoscaler instead of KEDA.")
def keda(drain_timeout: str, plain: bool, output: Path | None, force: bool, **given: Any) -> None:
    """Print Kubernetes manifests with KEDA autoscaling."""
    _output(render.keda(_plan(drain_timeout, **given), plain=plain), output, force)


@deploy.command()
@_together(cluster_options, output_options)
def helm(drain_timeout: str, output: Path | None, force: bool, **given: Any) -> None:
    """Write a Helm chart to a folder."""
    if output is None:
        raise click.UsageError("A chart is a folder. Name it, as in `windlass deploy helm -o chart`.")
    _output(render.helm(_plan(drain_timeout, **given)), output, force)


def _plan(drain_timeout: str, *, max_workers: int, **given: Any) -> Plan:
    plan = Plan(**given, max=max_workers, drain=duration(drain_timeout, "drain_timeout"))
    plan.check()
    return plan


def _find_command() -> str:
    """Return the path of the windlass command of this Python."""
    found = Path(sys.executable).with_name("windlass")
    return str(found) if found.exists() else shutil.which("windlass") or Plan().command


def _output(found: Mapping[str, str], output: Path | None, force: bool) -> None:
    """Print the files, separated as YAML documents, or write them into a folder."""
    if output is None:
        click.echo("---\n".join(found.values()), nl=False)
        return
    there = [name for name in found if (output / name).exists()]
    if there and not force:
        raise InvalidSettings(f"deploy: {', '.join(there)} already exists in {output}. Use --force to overwrite.")
    for name, text in found.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(text)
        click.echo(f"wrote {output / name}", err=True)
