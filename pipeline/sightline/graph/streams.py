"""Which streams a step works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def matching(patterns: Sequence[str] | None, streams: Iterable[str]) -> tuple[str, ...]:
    """The streams that one of the names or globs means, in their order; all of them when there are no patterns."""
    if patterns is None:
        return tuple(streams)
    return tuple(name for name in streams if any(fnmatchcase(name, pattern) for pattern in patterns))
