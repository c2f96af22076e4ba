"""Wait for a condition, with a limit that a slow and busy machine keeps."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

LIMIT_SECONDS = 300


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail when it is not after five minutes."""
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            pytest.fail("it did not come to that")
        time.sleep(0.01)
