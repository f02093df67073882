"""`windlass server`: the HTTP API over a store; `windlass openapi`: what it offers, as a document."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import click
import msgspec

from windlass.cli.logs import JsonLines
from windlass.cli.stores import opened, store_option


@click.command()
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; elsewhere needs tokens and TLS.")
@click.option("--port", default=7878, show_default=True, type=click.IntRange(0, 65_535), envvar="PORT")
@click.option("--root-path", default="", metavar="/PATH", help="Under which path a proxy shows this server.")
@click.option("--read-only", is_flag=True, help="Serve nothing that changes anything.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A further name to answer to. Repeatable.")
@click.option("--behind-proxy", is_flag=True, help="Something before this server speaks TLS.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--tls-key", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
def server(
    store_url: str | None,
    host: str,
    port: int,
    root_path: str,
    read_only: bool,
    hosts: Sequence[str],
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C. Without tokens it is open to this machine, and to it alone."""
    from windlass.server.http.serving import serve
    from windlass.server.settings import ServerSettings

    settings = ServerSettings(
        host=host,
        port=port,
        root_path=root_path,
        read_only=read_only,
        hosts=tuple(hosts),
        behind_proxy=behind_proxy,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    _log()
    serve(opened(store_url), settings, lambda address: click.echo(f"windlass: listening on {address}", err=True))


@click.command()
def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    from windlass.server.http.openapi import document
    from windlass.server.routes.table import TABLE

    click.echo(msgspec.json.format(msgspec.json.encode(document(TABLE))).decode())


def _log() -> None:
    """Say what goes wrong on standard error: lines for people in a terminal, JSON lines elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    terminal = sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S") if terminal else JsonLines())
    for name in ("windlass", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
