"""The Python API: apps, handlers, handles, workflows, and the context of a running task."""
