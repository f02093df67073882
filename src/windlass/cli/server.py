"""`windlass server`: serve the dashboard and the HTTP API; `windlass openapi`: print its OpenAPI document."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import click
import msgspec

from windlass.cli.logs import log_to_stderr
from windlass.cli.options import choose, open_chosen, read_only_option, url_option
from windlass.worker.isolation import protect_process


@click.command()
@url_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any other than localhost needs tokens and TLS.",
)
@click.option("--port", default=7878, show_default=True, type=click.IntRange(0, 65_535), envvar="PORT", help="Port.")
@click.option("--root-path", default="", metavar="/PATH", help="Path prefix under which a proxy serves this server.")
@read_only_option
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Additional host name to accept. Repeatable."
)
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of this server terminates TLS.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="TLS certificate.")
@click.option("--tls-key", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="TLS private key.")
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
    """Serve the dashboard and the HTTP API until SIGTERM or Ctrl-C.

    Without tokens, only this machine has access.
    """
    from windlass.dashboard.app import dashboard_routes
    from windlass.server.http.serving import serve
    from windlass.server.settings import ServerSettings

    log_to_stderr([logging.getLogger("windlass"), logging.getLogger("uvicorn.error")], logging.WARNING)
    store, choice = open_chosen(store_url, create=True), choose(store_url)
    settings = ServerSettings(
        host=host,
        port=port,
        root_path=root_path,
        read_only=read_only,
        hosts=tuple(hosts),
        behind_proxy=behind_proxy,
        tls_cert=tls_cert,
        tls_key=tls_key,
        store_name=choice.name,
    )
    protect_process(choice.url)

    def announce(address: str) -> None:
        click.echo(f"windlass: listening on {address} (store {choice})", err=True)

    serve(store, settings, announce, dashboard_routes)


@click.command()
def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    from windlass.server.http.openapi import document
    from windlass.server.routes.table import TABLE

    click.echo(msgspec.json.format(msgspec.json.encode(document(TABLE))).decode())
