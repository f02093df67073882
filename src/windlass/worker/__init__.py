"""Running tasks: nodes, the worker parent, and worker processes."""
