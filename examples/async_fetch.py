"""Async handlers: one worker process runs many at once on its event loop.

Run it: python examples/async_fetch.py
"""

import asyncio

import windlass

app = windlass.App()


@app.task
async def fetch(page: int) -> int:
    """Pretend to wait for the network, and return the size of a page."""
    await asyncio.sleep(0.2)
    return page * 10


async def main() -> None:
    """Enqueue from async code, and wait without blocking the loop."""
    handles = [await fetch.aenqueue(page) for page in range(20)]
    sizes = await asyncio.gather(*(handle.aresult(timeout=30) for handle in handles))
    print(len(sizes), "pages,", sum(sizes), "bytes")


if __name__ == "__main__":
    with app.worker(size=1):
        asyncio.run(main())
