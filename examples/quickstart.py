"""The smallest program: a task, a worker and a result.

Run it: python examples/quickstart.py
"""

import windlass

app = windlass.App()


@app.task
def add(a: int, b: int) -> int:
    """Add two numbers in a worker process."""
    return a + b


if __name__ == "__main__":
    with app.worker(size=1):
        print("1 + 2 =", add.enqueue(1, 2).result(timeout=30))
