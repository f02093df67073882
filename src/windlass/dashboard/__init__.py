"""The dashboard: web pages over `operations`, served with the HTTP API or inside another program."""
