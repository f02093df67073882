"""How fast the stores are, beside the cost of their bare statements; `python -m benchmarks --help` says what is run."""
