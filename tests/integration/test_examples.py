"""Every example runs as its first lines say, and prints what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "async_fetch": "20 pages, 1900 bytes",
    "cpu_bound": "primes below 40,002: 4203",
    "exactly_once_rows": "billed\ninvoices: 1",
    "orders": "order 7: 700 cents paid, parcel-7 is on its way",
    "own_metrics": "{'divide completed': 2, 'divide failed': 1}",
    "progress": "converted 20 frames\nthe second one is cancelled",
    "quickstart": "1 + 2 = 3",
    "rate_limit": "ann was charged 5 times, 0 at once with another\nbob was charged 5 times, 0 at once with another",
}
NEED_POSTGRES = {"exactly_once_rows"}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_the_example_prints_what_it_should(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    script = EXAMPLES / f"{name}.py"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    if name in NEED_POSTGRES:
        environment["WINDLASS_URL"] = request.getfixturevalue("postgres_url")

    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (run.returncode, run.stdout.strip()) == (0, PRINTED[name]), run.stderr
    assert f"python examples/{name}.py" in script.read_text()


def test_every_example_is_in_the_table() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()
