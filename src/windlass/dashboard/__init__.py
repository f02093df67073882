"""The dashboard: web pages over `operations`, served beside the HTTP API or inside another program.

See `docs/architecture/dashboard.md` for how a page is made.
"""
