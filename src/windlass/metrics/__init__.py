"""What Prometheus is told: what happened on a node, and how things stand in the store."""
