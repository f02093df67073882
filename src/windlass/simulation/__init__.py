"""Play a load in simulated time, with the code that sizes real pools.

Everything is drawn from a seed and nothing reads a clock, so the same arguments give the same result. Only
`load_sources` reads files and stores, and only `charts` writes files.
"""
