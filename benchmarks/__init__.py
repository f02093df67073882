"""Benchmarks of the stores, compared with their bare statements: `python -m benchmarks --help`."""
