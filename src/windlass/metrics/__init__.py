"""Prometheus metrics: events of a node, and the state of the store."""
