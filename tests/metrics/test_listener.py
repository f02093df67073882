"""The listener that serves the health and the metrics of a node."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from windlass.cli.main import main
from windlass.config import InvalidSettings
from windlass.metrics import listener as listening
from windlass.metrics.listener import MAX_CLIENTS, Listener, Response, listen, parse_address


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A listener with a single path."""
    found = listen("0", {"/things": lambda: Response(200, "text/plain", b"3 things")})
    yield found
    found.close()


def port_of(listener: Listener) -> int:
    return int(listener.server_address[1])


def slow_client(listener: Listener, begun: bytes = b"") -> socket.socket:
    """A client that sends nothing more."""
    client = socket.create_connection(("127.0.0.1", port_of(listener)), timeout=10)
    client.sendall(begun)
    return client


def test_only_the_given_paths_are_served(listener: Listener) -> None:
    with urlopen(f"{listener.url}/things?x=1", timeout=10) as answer:
        assert (answer.read(), answer.headers["Content-Type"]) == (b"3 things", "text/plain")
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{listener.url}/", timeout=10)

    assert listener.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [(b"POST /things HTTP/1.1", b"405"), (b"nonsense", b"400"), (b"GET /" + b"x" * 9_000 + b" HTTP/1.1", b"400")],
)
def test_other_methods_and_invalid_requests_are_refused(listener: Listener, request_line: bytes, status: bytes) -> None:
    with slow_client(listener, request_line + b"\r\n\r\n") as client:
        assert client.recv(100).split()[1] == status


def test_slow_clients_do_not_block_others(listener: Listener) -> None:
    clients = [slow_client(listener, b"GET /thi") for _ in range(MAX_CLIENTS - 1)]

    with urlopen(f"{listener.url}/things", timeout=4) as answer:
        assert answer.read() == b"3 things"

    for client in clients:
        client.close()


def test_clients_above_the_limit_are_disconnected(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "TIMEOUT_SECONDS", 1.0)
    clients = [slow_client(listener) for _ in range(MAX_CLIENTS)]
    with slow_client(listener) as one_more:
        assert one_more.recv(1) == b""

    for client in clients:
        assert client.recv(1) == b"", "each had a second, and made way"
        client.close()
    with urlopen(f"{listener.url}/things", timeout=4) as answer:
        assert answer.read() == b"3 things"


def test_a_client_that_sends_very_slowly_is_disconnected(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "TIMEOUT_SECONDS", 0.3)
    begun = time.monotonic()

    def send_drops(client: socket.socket) -> None:
        while time.monotonic() - begun < 10:
            client.sendall(b"x")
            time.sleep(0.02)

    with slow_client(listener) as client, pytest.raises(ConnectionError):
        send_drops(client)


def test_an_ipv6_address_is_served() -> None:
    try:
        listener = listen("[::1]:0", {"/": lambda: Response(200, "text/plain", b"here")})
    except InvalidSettings:
        pytest.skip("this machine has no IPv6")
    connection = HTTPConnection("::1", port_of(listener), timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"here"
    connection.close()
    listener.close()
    assert listener.url.startswith("http://[::1]:")


@pytest.mark.parametrize(
    ("address", "parts"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:1", ("::1", 1)), (":5", ("127.0.0.1", 5))],
)
def test_an_address_without_host_is_a_port_on_localhost(address: str, parts: tuple[str, int]) -> None:
    assert parse_address(address) == parts


@pytest.mark.parametrize("address", ["here", "", "host:", "1:70000", "host:-1"])
def test_an_invalid_address_raises_an_error(address: str) -> None:
    with pytest.raises(InvalidSettings, match="Use HOST:PORT"):
        parse_address(address)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InvalidSettings, match=f"--health {port}: cannot listen"):
            listen(str(port), {})


@pytest.mark.parametrize("flag", ["--health", "--metrics"])
def test_a_worker_with_a_wrong_address_does_not_start(flag: str) -> None:
    result = CliRunner().invoke(main, ["worker", "tests.e2e.shop:app", "--store", "memory:", flag, "here"])

    assert result.exit_code == 2
    assert "--health 'here' is not an address. Use HOST:PORT" in result.output
