"""Benchmarks of the stores, of nodes with workers, and of peers. `benchmarks/README.md` lists the commands."""
