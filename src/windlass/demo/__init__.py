"""`windlass demo`: a small shop that runs for ninety seconds, on a real node with workers that scale.

`shop` has the handlers, `traffic` the customers, `narration` turns events into lines, `demo_run` puts them together.
"""
