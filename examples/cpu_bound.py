"""CPU-bound work: every worker is a process, so all cores are used without any setting.

Run it: python examples/cpu_bound.py
"""

import windlass

app = windlass.App()


@app.task(timeout="1m")
def count_primes(start: int, stop: int) -> int:
    """Count the primes in a range, slowly."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(start, stop))


@app.task
def total(parts: list[int]) -> int:
    """Add up what the parts found."""
    return sum(parts)


if __name__ == "__main__":
    with app.workflow("primes") as wf:
        parts = [wf.add(count_primes, start, start + 10_000) for start in range(2, 40_002, 10_000)]
        found = wf.add(total, parts)
    with app.worker(size=2):
        print("primes below 40,002:", found.result(timeout=60))
