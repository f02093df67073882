"""A workflow with results that flow from step to step, and keys that make placing an order repeatable.

Run it: python examples/orders.py
"""

import windlass

app = windlass.App()


@app.task(retries=5)
def charge(order: int) -> int:
    """Charge an order and return what was paid, in cents."""
    return order * 100


@app.task
def pack(order: int) -> str:
    """Pack an order and return the number of the parcel."""
    return f"parcel-{order}"


@app.task
def notify(order: int, cents: int, parcel: str) -> str:
    """Return what the customer is going to read."""
    return f"order {order}: {cents} cents paid, {parcel} is on its way"


def place(order: int) -> windlass.Handle[str]:
    """Store all steps or none. Placing the same order again finds the tasks that exist."""
    with app.workflow(f"order-{order}") as wf:
        paid = wf.add(charge, order, key="charge")
        parcel = wf.add(pack, order, key="pack", after=[paid])
        return wf.add(notify, order, paid, parcel, key="notify")


if __name__ == "__main__":
    first = place(7)
    again = place(7)
    assert first.id == again.id, "the same keys are the same tasks"
    with app.worker(size=2):
        print(first.result(timeout=30))
