"""Compare the autoscaler with the rules of other systems in simulated time: `python -m benchmarks.autoscale --help`."""
