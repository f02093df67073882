"""A model of leases, fences and fan-in in Promela, which Spin explores completely."""
