"""Makes the wall clock of a process wrong (F14). Python runs this at its start if the folder is on its path.

The clock is off by the seconds in the file `$WINDLASS_CHAOS_CLOCK`, which may change at any time. The clocks that only
go forward stay as they are.
"""

from __future__ import annotations

import os
import time

_FILE = os.environ["WINDLASS_CHAOS_CLOCK"]
_real_time_ns = time.time_ns


def _time_ns() -> int:
    with open(_FILE) as file:  # noqa: PTH123 - as early as this, imports are to be few
        return _real_time_ns() + int(file.read() or "0") * 1_000_000_000


time.time_ns = _time_ns
time.time = lambda: _time_ns() / 1e9
