"""Tolerance: what happens when a step with `on_error: skip` fails."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable

from sightline.errors import OperatorError
from sightline.graph import Message, MessageKind, Site
from sightline.media import Stream
from sightline.redaction import redact

MOST_IN_A_ROW = 50
"""After so many failures on one stream, one after another, the stream is given up."""

Hopeless = Callable[[Stream, OperatorError, str], None]
"""Gives a stream up for an error, whose traceback is the last argument."""


class Tolerance:
    """Counts the failures of one step, per stream; the first of each row is told with its traceback. One thread."""

    def __init__(self, *, site: Site, hopeless: Hopeless) -> None:
        self._site = site
        self._hopeless = hopeless
        self._in_a_row: dict[Stream, int] = {}

    def worked(self, stream: Stream) -> None:
        """The step has worked on frames of the stream."""
        self._in_a_row.pop(stream, None)

    def failed(self, stream: Stream, error: OperatorError, *, counted: Counter[str]) -> None:
        """The step has failed on frames of the stream, which go on without it; `counted` by the type of the error."""
        cause = error.__cause__ or error
        counted[type(cause).__name__] += 1
        count = self._in_a_row[stream] = self._in_a_row.get(stream, 0) + 1
        if count == 1:
            text = f"{error}; the frame goes on without this step (on_error: skip)"
            self._site.post(Message(MessageKind.WARNING, text, stream.name, error.element, details=_lines(cause)))
        elif count == MOST_IN_A_ROW:
            self._hopeless(stream, error, _lines(cause))

    def forget(self, stream: Stream) -> None:
        """The stream has ended."""
        self._in_a_row.pop(stream, None)


def _lines(error: BaseException) -> str:
    return redact("".join(traceback.format_exception(error)))
