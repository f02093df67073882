"""Settings of the HTTP server: where it listens, which host names it accepts, its limits."""

from __future__ import annotations

from ipaddress import ip_address

from msgspec import Struct

from windlass.config import InvalidSettings

MAX_BODY = 1_000_000
MAX_HEADERS = 16_384
MAX_CONNECTIONS = 2_000
MAX_ADDRESS_CONNECTIONS = 500
MAX_TOKEN_REQUESTS = 1_000
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The settings of one server."""

    host: str = "127.0.0.1"
    port: int = 7878
    root_path: str = ""
    """The path under which a proxy serves it, such as `/windlass`."""
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    """Other accepted host names, such as that of a proxy."""
    any_host: bool = False
    """True inside another program, which decides about host names itself."""
    behind_proxy: bool = False
    """True if a proxy terminates TLS."""
    tls_cert: str | None = None
    tls_key: str | None = None
    connections: int = MAX_CONNECTIONS
    """How many connections may be open. A new one replaces an idle one."""
    connections_per_address: int = MAX_ADDRESS_CONNECTIONS
    """How many of them may come from one address, unless a proxy is in front."""
    requests_per_token: int = MAX_TOKEN_REQUESTS
    """How many requests of one token may run at the same time, including waiting claims and event streams."""
    threads: int = 16
    """How many store calls of submits and workers run at once; a quarter as many for reads, and for operators."""
    backlog: int = 1_000
    """How many more may wait for a thread."""
    request_seconds: float = 20.0
    """The time limit for reading a body, and for a store call."""
    secret: str = ""
    """While there are no tokens, local requests need this secret; if empty, they need none."""
    store_name: str = ""
    """A short name of the store, which the dashboard shows."""
    rate: float = 1_000.0
    """Requests per second for each token, with bursts of twice as many."""

    @property
    def is_local(self) -> bool:
        """Return True if only this machine can reach the server."""
        return is_loopback(self.host) and all(map(is_loopback, self.hosts))

    def check(self, *, has_tokens: bool) -> None:
        """Raise `InvalidSettings` for invalid settings, and for settings that would expose the store to everybody."""
        faults: list[str] = []
        if not 0 <= self.port <= 65_535:
            faults.append(f"port={self.port} is out of range. Use 0 to 65535.")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            faults.append(f"root_path={self.root_path!r} must start, but not end, with a slash, as in /windlass.")
        if (self.tls_cert is None) != (self.tls_key is None):
            faults.append("tls_cert and tls_key must be set together.")
        if not self.is_local and not has_tokens:
            faults.append(
                f"host={self.host!r} is reachable from other machines and there are no tokens, so anyone could change "
                "tasks. Create a token first: windlass token create NAME --scope read"
            )
        if not is_loopback(self.host) and self.tls_cert is None and not self.behind_proxy:
            faults.append(
                f"host={self.host!r} is reachable from other machines and tokens would be sent unencrypted. Use "
                "--tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS."
            )
        if faults:
            raise InvalidSettings("server: " + " ".join(faults))

    def accepts_host(self, name: str) -> bool:
        """Return True if a request may name this host. Web pages can point their names here, but not our addresses."""
        name = name.lower().removesuffix(".")
        if (
            self.any_host
            or name in LOOPBACK_NAMES
            or name == self.host.lower()
            or name in {host.lower() for host in self.hosts}
        ):
            return True
        return not is_loopback(self.host) and _is_address(name)


def is_loopback(host: str) -> bool:
    """Return True if the host is this machine only."""
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
