"""Running tasks: the node that leases them, the nursery that forks workers, the workers that run handlers."""
