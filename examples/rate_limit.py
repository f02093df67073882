"""Limits that hold over all nodes: one task at a time per customer, while other customers go on.

Run it: python examples/rate_limit.py
"""

import time
from itertools import pairwise

import windlass

app = windlass.App()


@app.task(limit="customer:{customer}", max_running=1)
def charge(customer: str, cents: int) -> tuple[float, float]:
    """Charge a customer, and return when it began and ended."""
    began = time.monotonic()
    time.sleep(0.05)  # the call to a payment service
    return began, time.monotonic()


if __name__ == "__main__":
    handles = {name: [charge.enqueue(name, cents=100) for _ in range(5)] for name in ("ann", "bob")}
    with app.worker(size=4):
        for name, tasks in handles.items():
            times = sorted(task.result(timeout=30) for task in tasks)
            overlaps = sum(later[0] < earlier[1] for earlier, later in pairwise(times))
            print(name, "was charged", len(times), "times,", overlaps, "at once with another")
