"""The autoscaler against its rivals in a simulated pool; `python -m benchmarks.autoscale --help` says what is run."""
