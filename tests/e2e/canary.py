"""An app whose handlers meet secrets in every way: as arguments, results, errors, progress and output."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import windlass
from windlass import Secret

app = windlass.App()


@app.task
def charge(password: str, card: Secret[str], note: str = "") -> dict[str, str]:
    """Return and print secrets."""
    print(f"password={password}")  # noqa: T201 - what handlers print is stored
    logging.getLogger("shop").warning("charging with token=%s", card)
    windlass.current().progress(0.5, f"api_key={password}")
    return {"password": password, "card": "used", "url": f"https://shop:{password}@bank.example/"}


@app.task(retry=windlass.Retry(retries=0))
def fail(password: str, card: Secret[str]) -> None:
    """Fail with secrets in the message, the cause and the traceback."""
    try:
        raise ConnectionError(f"postgresql://shop:{password}@bank/accounts did not answer")
    except ConnectionError as error:
        raise ValueError(f"secret={card} was refused, Authorization: Bearer {password}") from error


@app.task
def look() -> dict[str, object]:
    """Return what a worker process has of its node: descriptors, environment, command line."""
    files = {}
    for file in Path("/proc/self/fd").iterdir():
        try:
            files[file.name] = str(file.readlink())
        except OSError:
            continue  # The one that lists this folder.
    return {"files": files, "variables": dict(os.environ), "words": Path("/proc/self/cmdline").read_text().split("\0")}
