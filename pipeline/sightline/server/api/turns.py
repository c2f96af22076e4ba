"""Questions to the history, which take turns, and what they have in common: a span of time, and answers as CSV."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

from anyio import to_thread
from fastapi import Depends, Header, Query
from starlette.responses import Response

from sightline.errors import OutputError
from sightline.server.guard import Refused

Result = TypeVar("Result")
_REST = 3.0
"""How much longer than a question took the next one waits: all of them together take a quarter of a core."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

From = Annotated[datetime | None, Query(alias="from", description="The beginning: RFC 3339, or seconds since 1970.")]
To = Annotated[datetime | None, Query(description="The end; now when not given.")]
CSV: dict[int | str, dict[str, Any]] = {
    int(HTTPStatus.OK): {"content": {"text/csv": {"schema": {"type": "string"}}}},
}
"""What the document says of a route that also answers as CSV."""


class Turns:
    """Asks questions in a thread, one at a time and with a rest between two; in one event loop.

    With `most_waiting`, a question is refused (429) while so many wait already.
    """

    def __init__(self, *, most_waiting: int | None = None) -> None:
        self._lock = asyncio.Lock()
        self._rested_at = 0.0
        self._most_waiting = most_waiting
        self._waiting = 0

    async def ask(self, question: Callable[[], Result]) -> Result:
        """Return the answer. Raises Refused."""
        if self._most_waiting is not None and self._waiting >= self._most_waiting:
            text = f"{self._waiting} questions wait already: ask again later"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": "1"})
        self._waiting += 1
        try:
            return await self._answer(question)
        finally:
            self._waiting -= 1

    async def _answer(self, question: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        async with self._lock:
            await asyncio.sleep(max(0.0, self._rested_at - loop.time()))
            begin = loop.time()
            try:
                return await to_thread.run_sync(question)
            except ValueError as error:
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
            except OutputError as error:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
            finally:
                now = loop.time()
                self._rested_at = now + _REST * (now - begin)


def seconds_of(moment: datetime | None) -> float | None:
    """Seconds since the epoch; a time without a zone is UTC. Raises Refused for times beyond the calendar."""
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except OverflowError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"there is no such time: {moment}") from error


def _as_csv(
    answer_format: Annotated[
        Literal["json", "csv"] | None,
        Query(alias="format", description="`csv` for a table, as `Accept: text/csv` does; else JSON."),
    ] = None,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> bool:
    if answer_format is not None:
        return answer_format == "csv"
    return any(part.split(";")[0].strip() == "text/csv" for part in (accept or "").split(","))


AsCsv = Annotated[bool, Depends(_as_csv)]
"""Whether CSV is asked for."""


def csv_answer(head: Sequence[str], rows: Iterable[Iterable[object]]) -> Response:
    """A table as CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return Response(text.getvalue(), media_type="text/csv", headers={"Vary": "Accept"})


def csv_time(seconds: float) -> str:
    """A time in seconds since 1970 as spreadsheets read it, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
