"""Where tasks live: one set of contracts (`protocol`), three homes (`memory`, `sqlite`, `postgres`)."""
