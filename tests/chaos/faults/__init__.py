"""The faults that the nemesis draws, by what they break. Importing this package registers them all."""

from tests.chaos.faults import clients, machine, network, postgres, processes, sqlite

__all__ = ["clients", "machine", "network", "postgres", "processes", "sqlite"]
