"""State that outlives a process: what an operator knows of a stream, as plain values that a file can hold.

A run of cameras that ends, however it ends, is a gap in time and not a new world: who stood in a zone may still stand
there. So the runtime asks operators from time to time what they know, keeps it, and gives it back to those of the next
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from sightline.media import Stream

Saved: TypeAlias = Mapping[str, Any]
"""JSON values: mappings with text as keys, lists, text, numbers, booleans and None."""


@runtime_checkable
class KeepsState(Protocol):
    """An operator whose state of a stream can go on in another process."""

    def save(self, stream: Stream) -> Saved | None:
        """Return what it knows of a stream; None when that is nothing. Called between two batches, never while
        `process` runs; it must be quick, because the batches behind it wait.
        """
        ...

    def restore(self, stream: str, saved: Saved) -> None:
        """Take over what an operator of this element knew of the stream of that name in an earlier process. Called
        before the first frame of the stream. What does not fit the present options is left out.

        Raises ValueError (or KeyError, TypeError) when `saved` is not what `save` returns; nothing is changed then.
        """
        ...
