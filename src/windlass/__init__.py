"""Windlass: a durable task scheduler for Python with a worker pool that sizes itself."""
