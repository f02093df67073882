"""Faults of the network between PostgreSQL and one of its clients, or all of them."""

from __future__ import annotations

from tests.chaos.nemesis import POSTGRES, Nemesis, fault
from tests.support.proxy import Fault as WireFault
from tests.support.proxy import Proxy


def pick_link(nemesis: Nemesis) -> tuple[str, Proxy]:
    """Return one client of the database, and its way there."""
    return nemesis.rng.choice(sorted(nemesis.cluster.links.items()))


@fault("F8 cut one client off", on=POSTGRES)
def partition_one(nemesis: Nemesis) -> None:
    """One client cannot reach the database for a while; the others can."""
    name, link = pick_link(nemesis)
    with nemesis.recorded("partition", name):
        link.refuse()
        link.reset()
        nemesis.pause(0.2, nemesis.cluster.ttl + 2)
        link.admit()


@fault("F8 cut everyone off", on=POSTGRES)
def partition_all(nemesis: Nemesis) -> None:
    """Nobody can reach the database for a while."""
    links = nemesis.cluster.links.values()
    with nemesis.recorded("outage"):
        for link in links:
            link.refuse()
            link.reset()
        nemesis.pause(0.2, nemesis.cluster.ttl + 1)
        for link in links:
            link.admit()


@fault("F8 reset connections", on=POSTGRES)
def reset_connections(nemesis: Nemesis) -> None:
    """Every connection is reset once."""
    for link in nemesis.cluster.links.values():
        link.reset()


@fault("F8 half-open connections", on=POSTGRES)
def half_open(nemesis: Nemesis) -> None:
    """Connections of one client stay open and carry nothing, in both directions or in one; then they are reset."""
    name, link = pick_link(nemesis)
    with nemesis.recorded("partition", name):
        silent = nemesis.rng.choice(
            ({"to_server": False}, {"to_client": False}, {"to_server": False, "to_client": False})
        )
        link.shape(**silent)
        nemesis.pause(1, nemesis.cluster.ttl + 2)
        link.reset()
        link.shape()


@fault("F8 slow network", on=POSTGRES)
def slow_network(nemesis: Nemesis) -> None:
    """Everything that one client sends and gets is late."""
    name, link = pick_link(nemesis)
    with nemesis.recorded("slow", name):
        link.shape(delay=nemesis.rng.uniform(0.02, 0.3))
        nemesis.pause(1, 4)
        link.shape()


@fault("F8 byte by byte", on=POSTGRES)
def trickle(nemesis: Nemesis) -> None:
    """What one client sends and gets comes in tiny pieces."""
    name, link = pick_link(nemesis)
    with nemesis.recorded("slow", name):
        link.shape(piece=7, delay=0.001)
        nemesis.pause(1, 3)
        link.shape()


@fault("F9 lose answers", on=POSTGRES)
def lose_answers(nemesis: Nemesis) -> None:
    """The next commits of a client arrive, and their answers do not."""
    _, link = pick_link(nemesis)
    link.order(*[WireFault.ANSWER_LOST] * nemesis.rng.randint(1, 4))


@fault("F9 lose commits", on=POSTGRES)
def lose_commits(nemesis: Nemesis) -> None:
    """The next commits of a client never arrive."""
    _, link = pick_link(nemesis)
    link.order(*[WireFault.NEVER_ARRIVES] * nemesis.rng.randint(1, 4))
