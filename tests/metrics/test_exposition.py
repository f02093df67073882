from __future__ import annotations

import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, Counter

from tests.metrics.values import read
from windlass.cli.main import main
from windlass.config import InvalidSettings
from windlass.metrics.exposition import parsed, serve


def test_metrics_are_served_on_this_machine_and_nothing_else_is() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    server = serve("0", registry)
    try:
        host, port = server.server_address[:2]
        with urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=10) as answer:
            found = read(answer.read())
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/", timeout=10)
    finally:
        server.shutdown()
        server.server_close()

    assert host == "127.0.0.1"
    assert found == {"things_total": 3}


@pytest.mark.parametrize(
    ("address", "parts"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:1", ("::1", 1)), (":5", ("127.0.0.1", 5))],
)
def test_an_address_is_a_port_of_this_machine_unless_it_says_more(address: str, parts: tuple[str, int]) -> None:
    assert parsed(address) == parts


@pytest.mark.parametrize("address", ["here", "", "host:", "1:70000", "host:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidSettings, match="write HOST:PORT"):
        parsed(address)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InvalidSettings, match=f"--metrics {port}: cannot listen there"):
            serve(str(port))


def test_a_worker_with_a_wrong_address_does_not_start() -> None:
    result = CliRunner().invoke(main, ["worker", "tests.e2e.shop:app", "--store", "memory:", "--metrics", "here"])

    assert result.exit_code == 2
    assert "--metrics 'here' is no address; write HOST:PORT" in result.output
