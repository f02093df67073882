"""Fixtures for all tests: real servers, the folder of real graphs, and the setup of the run.

One PostgreSQL serves the whole run, whatever the number of xdist workers: the first test that needs it starts it, and
the controller stops it. Each test gets its own database; a test that stops the server starts its own server.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import pytest

from tests.support.processes import file_lock
from tests.support.servers import PgBouncer, PostgresServer, ServerMissing

# Examples have no time limit, because only benchmarks measure time; a failure prints what is needed to replay it.
hypothesis.settings.register_profile("windlass", deadline=None, print_blob=True)
hypothesis.settings.load_profile("windlass")

RUN = pytest.StashKey[dict[str, Any]]()
STARTED = pytest.StashKey[PostgresServer]()
SERVER = "postgres"
"""The file in the folder of the run that has the state of its PostgreSQL."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--dags",
        metavar="PATH",
        default=os.environ.get("WINDLASS_DAGS"),
        help="folder of real graphs (*.jsonl.gz); default: $WINDLASS_DAGS. Tests that need it skip without.",
    )


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)  # only in xdist's workers
    if worker is not None:
        config.stash[RUN] = worker["windlass_run"]
    else:
        config.stash[RUN] = {"folder": tempfile.mkdtemp(prefix="windlass-run-"), "controller_pid": os.getpid()}


@pytest.hookimpl(optionalhook=True)  # xdist's, in the controller, for each worker before it starts
def pytest_configure_node(node: Any) -> None:
    node.workerinput["windlass_run"] = node.config.stash[RUN]


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or RUN not in config.stash:
        return
    folder = Path(config.stash[RUN]["folder"])
    state = folder / SERVER
    if state.exists():
        server = config.stash.get(STARTED, None) or PostgresServer.attach(json.loads(state.read_text()))
        server.close()
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave soak tests out unless -m speaks of them, whatever else it says, and mix the others for several workers."""
    if "soak" not in config.option.markexpr:
        soak = {item for item in items if item.get_closest_marker("soak")}
        if soak:
            config.hook.pytest_deselected(items=list(soak))
            items[:] = [item for item in items if item not in soak]
    if hasattr(config, "workerinput"):
        items[:] = mix(items)


def mix(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with their files in a fixed random order. Those in a browser stay together, as they share sites.

    xdist gives each worker a part of the list, and tests that mostly wait are in a few folders. In the order of the
    folders, all workers would compute at the same time, and wait at the same time.
    """
    groups: dict[Path, list[pytest.Item]] = {}
    for item in items:
        folder = item.path.parent
        groups.setdefault(folder if folder.name == "browser" else item.path, []).append(item)
    order = list(groups)
    Random(1).shuffle(order)
    return [item for path in order for item in groups[path]]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def dags_folder(pytestconfig: pytest.Config) -> Path:
    """The folder of real graphs."""
    given = pytestconfig.getoption("--dags")
    if not given:
        pytest.skip("no real graphs here: give their folder with --dags PATH or $WINDLASS_DAGS")
    folder = Path(given)
    assert folder.is_dir(), f"--dags or $WINDLASS_DAGS names {given}, which is not a folder"
    return folder


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> PostgresServer:
    """The run's PostgreSQL. Everybody uses it: a test that stops or restarts one takes `own_postgres_server`."""
    run = pytestconfig.stash[RUN]

    def start() -> str:
        pytestconfig.stash[STARTED] = PostgresServer(owner_pid=run["controller_pid"])
        pytestconfig.stash[STARTED].start()
        return json.dumps(pytestconfig.stash[STARTED].state)

    state = once(Path(run["folder"]), SERVER, start)
    return pytestconfig.stash.get(STARTED, None) or PostgresServer.attach(json.loads(state))


@pytest.fixture(scope="session")
def run_folder(pytestconfig: pytest.Config) -> Path:
    """A folder that all xdist workers share."""
    return Path(pytestconfig.stash[RUN]["folder"])


@pytest.fixture(scope="session")
def database_of_the_run(
    run_folder: Path, postgres_server: PostgresServer
) -> Callable[[str, Callable[[str], None]], str]:
    """Return a function for the URL of a database that all xdist workers share. The first one that asks fills it."""

    def url(name: str, fill: Callable[[str], None]) -> str:
        def make() -> str:
            url = postgres_server.url(postgres_server.create_database())
            fill(url)
            return url

        return once(run_folder, name, make)

    return url


def once(folder: Path, name: str, make: Callable[[], str]) -> str:
    """Return what the first process of the run has made under this name."""
    made = folder / name
    with file_lock(folder / f"{name}.lock"):
        if not made.exists():
            made.write_text(make())
    return made.read_text()


@pytest.fixture
def own_postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that only this test uses, and may stop, start and restart. Costs about a second."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a fresh, empty database, dropped afterwards."""
    name = postgres_server.create_database()
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_database: str) -> str:
    """A fresh, empty database."""
    return postgres_server.url(postgres_database)


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A PgBouncer in transaction pooling before the run's PostgreSQL, one for each xdist worker."""
    bouncer = PgBouncer(postgres_server)
    try:
        bouncer.start()
    except ServerMissing as error:
        pytest.skip(f"{error}; install the package `pgbouncer` to run this test")
    yield bouncer
    bouncer.close()


@pytest.fixture
def pgbouncer_url(pgbouncer: PgBouncer, postgres_database: str) -> str:
    """The database of `postgres_url`, through PgBouncer."""
    return pgbouncer.url(postgres_database)
