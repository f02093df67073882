"""End-to-end workloads: an app, its clients and its workers as people run them, beside peers in the same run."""
