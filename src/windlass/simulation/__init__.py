"""A pool in simulated time: the very code that sizes real pools, and the rules of the field beside it, over any load.

Everything is drawn from a seed and nothing reads a clock, so the same question has the same answer twice. `world` is
the pool, `load` what it serves, `ours` and `rivals` are the policies, `score` judges a run against the clairvoyant
`bound`. Only `traces` and `charts` touch files, and only `recorded` reads a store.
"""
