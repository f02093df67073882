"""A listener for the events of a node: count outcomes by handler.

Run it: python examples/own_metrics.py
"""

from collections import Counter

import windlass
from windlass.events import AttemptEnded, Event

app = windlass.App()
outcomes: Counter[str] = Counter()


@app.task(retries=0)
def divide(a: int, b: int) -> float:
    """Divide, or fail."""
    return a / b


def count(event: Event) -> None:
    """Count ends of attempts. Listeners run in the node's threads, so they must be quick."""
    if isinstance(event, AttemptEnded):
        outcomes[f"{event.handler.rpartition('.')[2]} {event.state.value}"] += 1


if __name__ == "__main__":
    with app.worker(size=1, on_event=count):
        handles = [divide.enqueue(6, number) for number in (1, 2, 0)]
        states = [handle.wait(timeout=30) for handle in handles]
    print(dict(sorted(outcomes.items())))
