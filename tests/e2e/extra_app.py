"""An app whose handlers are in another module."""

from __future__ import annotations

import windlass

app = windlass.App("memory:")
