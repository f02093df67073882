"""Faults of machines: their disks and their clocks."""

from __future__ import annotations

from tests.chaos.nemesis import POSTGRES, Nemesis, fault


@fault("F12 fill the disk", needs="disk")
def fill_disk(nemesis: Nemesis) -> None:
    """The disk of the database is full for a while. PostgreSQL may stop because of that, and is started again."""
    with nemesis.recorded("outage"):
        nemesis.cluster.disk.fill()
        nemesis.pause(0.5, 3)
        nemesis.cluster.disk.free()
        nemesis.cluster.revive_database()


@fault("F14 set the clock of a node", on=POSTGRES)
def set_clock(nemesis: Nemesis) -> None:
    """The wall clock of a node is minutes or an hour off, then right again. SQLite has only that of the machine."""
    member = nemesis.cluster.pick(nemesis.rng)
    member.set_clock(nemesis.rng.choice((300, -300, 3600, -3600)))
    nemesis.pause(2, 5)
    member.set_clock(0)
