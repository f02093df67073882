"""An app with a cron that fires every second."""

from __future__ import annotations

import windlass
from tests.e2e.shop import effect

app = windlass.App()


@app.cron("* * * * * *")
def every_second() -> None:
    effect("ticked", key=windlass.current().key)
