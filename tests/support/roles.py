"""Runs the scripts of `windlass deploy role` and `windlass deploy roles` on a real server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.support.servers import PostgresServer
from windlass.deploy import render
from windlass.deploy.plan import Plan

ROLES = ("node", "api", "read")


def run_script(server: PostgresServer, script: str, **variables: str) -> None:
    """Run a script with psql, as a superuser. The variables are set in its environment."""
    done = subprocess.run(
        ["psql", "--no-psqlrc", "--quiet", server.url("postgres")],
        input=script,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def create_roles(server: PostgresServer, *, owner: str, database: str, prefix: str) -> Mapping[str, str]:
    """Create the roles for nodes, the API and readers. Return their URLs."""
    [script] = render.roles(Plan(owner=owner, database=database, prefix=prefix)).values()
    run_script(server, script, **{f"WINDLASS_{role.upper()}_PASSWORD": f"{role} pass'word" for role in ROLES})
    return {role: role_url(server, f"{prefix}_{role}", database) for role in ROLES}


def role_url(server: PostgresServer, role: str, database: str) -> str:
    """Return the URL of a database for a role. The servers of tests ask for no password."""
    found = urlsplit(server.url(database))
    return found._replace(netloc=f"{role}@{found.hostname}:{found.port}").geturl()


def drop_roles(server: PostgresServer, *names: str) -> None:
    """Drop roles whose database is gone."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))
