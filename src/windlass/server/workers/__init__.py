"""Support for workers that speak HTTP: claim waiters, sweeping, and circuit breaker probes."""
