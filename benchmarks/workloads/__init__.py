"""End-to-end workloads: an app with its clients and workers, compared with peers in the same run."""
