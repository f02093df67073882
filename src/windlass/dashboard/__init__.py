"""The dashboard: web pages over `operations`, served with the HTTP API or inside another program.

See `docs/architecture/dashboard.md` for how a page is made.
"""
