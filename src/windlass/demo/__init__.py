"""`make demo`, `windlass demo`: a small shop for ninety seconds, on a real node with workers that size themselves.

`shop` has the handlers, `traffic` the customers, `story` tells what happens, `stage` puts them together.
"""
