"""Which files this process has open, and a check that a test leaves none open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

DESCRIPTORS = Path("/proc/self/fd")
needs_descriptors = pytest.mark.skipif(
    not DESCRIPTORS.is_dir(), reason="this system does not tell which files are open"
)


def open_files() -> set[tuple[str, str]]:
    """The number of each open file, and what it is; the folder that is read for it is not among them."""
    found = set()
    for entry in DESCRIPTORS.iterdir():
        try:
            found.add((entry.name, str(entry.readlink())))
        except OSError:  # closed meanwhile, as that of the folder is
            continue
    return {one for one in found if not one[1].endswith("/fd")}


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Wait at the end until no file is open that was not open before.

    What tests before left to end by itself in this process opens and closes files too, so numbers of files may differ.
    """
    before = open_files()
    yield
    wait_until(lambda: not open_files() - before)
