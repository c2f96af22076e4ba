"""The words in braces in paths of outputs: `{stream}`, and of some elements `{frame}`, `{track}` or `{time}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sightline.graph import Problem
from sightline.graph.registry import suggest

STREAM = "{stream}"
_WORD = re.compile(r"\{\w*\}")


def placeholder_problems(template: str, *, known: Sequence[str] = (STREAM,), key: str = "path") -> Iterator[Problem]:
    """Words in braces that stand for nothing: names of files would hold them as they are."""
    for word in dict.fromkeys(_WORD.findall(template)):
        if word not in known:
            near = suggest(word, known) or f"; there is {' and '.join(known)}"
            yield Problem(f"{word} stands for nothing here{near}", (key,))
