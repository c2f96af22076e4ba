"""Names of streams: what they may hold, and that no two of them mean the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sightline.graph.outputs import safe_name

_STREAM_NAME = re.compile(r"[^\W_][\w .-]{0,63}")


def name_problems(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with names of streams that are there together: the name, and what is wrong with it."""
    seen: dict[str, str] = {}
    for name in names:
        if not _STREAM_NAME.fullmatch(name):
            yield (
                name,
                "a stream's name holds letters, digits, blanks, . _ - and starts with a letter or digit; at most 64",
            )
        file_name = safe_name(name)
        if file_name in seen:
            yield name, f"means the same file name {file_name!r} as the stream {seen[file_name]!r}: rename one of them"
        seen.setdefault(file_name, name)
