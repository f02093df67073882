"""Models in Promela of leases and sessions, and of fan-in and cancel, which Spin explores completely."""
