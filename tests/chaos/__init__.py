"""Real nodes, a real database and faults on a seeded schedule, judged by the checker: `make chaos`."""
