"""What a server is told: where it listens, which names it answers to, its limits. Checked once."""

from __future__ import annotations

from ipaddress import ip_address

from msgspec import Struct

from windlass.config import InvalidSettings

MAX_BODY = 1_000_000
MAX_HEADERS = 16_384
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class ServerSettings(Struct, frozen=True, kw_only=True):
    """One server."""

    host: str = "127.0.0.1"
    port: int = 7878
    root_path: str = ""
    """Under which path a proxy shows it, as in `/windlass`."""
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    """Further names that requests may ask for, such as that of a proxy."""
    behind_proxy: bool = False
    """Whether something before it speaks TLS."""
    tls_cert: str | None = None
    tls_key: str | None = None
    threads: int = 16
    """How many requests may be with the store at once."""
    backlog: int = 1_000
    """How many more may wait for that."""
    request_seconds: float = 20.0
    """How long a request may take, reading a body or waiting for the store; then it is given up."""
    rate: float = 1_000.0
    """How many requests a second each token may make; twice as many at once."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it, under its own names."""
        return is_loopback(self.host) and all(map(is_loopback, self.hosts))

    def check(self, *, has_tokens: bool) -> None:
        """Refuse what cannot be followed, and what would leave the store open to everybody."""
        faults: list[str] = []
        if not 0 <= self.port <= 65_535:
            faults.append(f"port={self.port} is out of range; give 0 to 65535")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            faults.append(f"root_path={self.root_path!r} is no path; give one such as /windlass")
        if (self.tls_cert is None) != (self.tls_key is None):
            faults.append("tls_cert and tls_key belong together; give both, or none")
        if not self.is_local and not has_tokens:
            faults.append(
                f"host={self.host!r} can be reached from elsewhere, and there is no token, so that anybody could do "
                "anything; make one first: windlass token create NAME --scope read"
            )
        if not is_loopback(self.host) and self.tls_cert is None and not self.behind_proxy:
            faults.append(
                f"host={self.host!r} can be reached from elsewhere, and tokens would travel in the clear; give "
                "--tls-cert and --tls-key, or say --behind-proxy if something before it speaks TLS"
            )
        if faults:
            raise InvalidSettings("server: " + "; ".join(faults))

    def answers_to(self, name: str) -> bool:
        """Whether a request may ask for this host. A page elsewhere can point its own name at us, but no address."""
        name = name.lower().removesuffix(".")
        if name in LOOPBACK_NAMES or name == self.host.lower() or name in {host.lower() for host in self.hosts}:
            return True
        return not is_loopback(self.host) and _is_address(name)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
