"""Integrations with frameworks. Each one is imported by applications only, and needs its framework installed."""
