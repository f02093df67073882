"""Wrong uses: a type checker must report exactly one error on each line marked `# wrong`. Never run."""

from __future__ import annotations

import windlass

app = windlass.App("memory:")


@app.task
def plain(to: str, subject: str = "") -> int:
    return len(to + subject)


@app.task(queue="mail")
async def asynchronous(n: int) -> str:
    return str(n)


def calls() -> None:
    app.task(colour="red")  # wrong
    app.task(timeout=["30s"])  # wrong
    plain.enqueue()  # wrong
    plain.enqueue(3)  # wrong
    plain.enqueue("a", "b", "c")  # wrong
    plain.enqueue("a", colour="red")  # wrong
    plain.bind(3)  # wrong
    plain.using(priority="high")  # wrong
    plain.using(colour="red")  # wrong
    plain.using(on_failure="explode")  # wrong
    plain.using(priority=1).enqueue(3)  # wrong
    asynchronous.enqueue("a")  # wrong
    text: str = plain.enqueue("a").result()  # wrong
    number: int = asynchronous.enqueue(1).result()  # wrong
    app.enqueue_many([plain])  # wrong
    plain.enqueue("a").update(colour="red")  # wrong
    app.handle("0193", len)  # wrong
    other: str = app.handle("0193", plain).result()  # wrong
    assert other
    app.queues.set("mail", colour="red")  # wrong
    app.queues.set("mail", strategy="red")  # wrong
    app.pools.set("mail", "two")  # wrong
    micros: int = plain.enqueue("a").task().due  # wrong
    assert micros
    assert text
    assert number


async def coroutines() -> None:
    await plain.aenqueue(3)  # wrong
    number: int = await asynchronous.enqueue(1)  # wrong
    assert number


def building() -> None:
    with app.workflow("w") as wf:
        wf.add(len, "a")  # wrong
        wf.add(plain, "a", on_failure="explode")  # wrong
        wf.wait_for("approved", on_failure="explode")  # wrong
        wf.sleep_until("tomorrow")  # wrong
