"""Finds tracks of the index that a running step writes: opened when it is there, and anew when it is another file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.track_search import FoundTrack, SearchResult, TrackQuery, TrackQuestion
from sightline.media.convert import rgb_from_surface
from sightline_plugins.search.searching import TrackSearch

MOST_PIXELS = 25_000_000
"""Of an image that tracks shall look like."""
_Result = TypeVar("_Result")


class IndexFinder:
    """The finder of `search_index`. Threads take turns; the models of the encoder stay open between questions."""

    def __init__(self, path: Path, *, encoder: Path) -> None:
        self._path = path
        self._encoder = encoder
        self._turn = Lock()
        self._opened: tuple[tuple[int, int], TrackSearch] | None = None

    def find(self, question: TrackQuestion) -> SearchResult:
        """See `TrackFinder`."""
        like = None if question.like_image is None else _rgb(question.like_image)

        def search(opened: TrackSearch) -> SearchResult:
            return opened.search(
                question.text,
                count=question.count,
                like=like,
                like_track=question.like_track,
                least_score=question.least_score,
                streams=question.streams,
                labels=question.labels,
                since=question.since,
                until=question.until,
                zone=question.zone,
            )

        found = self._asked(search)
        return SearchResult(TrackQuery(question.text), 0, 0, ()) if found is None else found

    def track(self, row: int) -> FoundTrack | None:
        """See `TrackFinder`."""
        return self._asked(lambda opened: opened.track(row))

    def close(self) -> None:
        """Close the file and the models; harmless when called again."""
        with self._turn:
            self._forget()

    def _asked(self, question: Callable[[TrackSearch], _Result]) -> _Result | None:
        """The answer to a question; None where there is no file yet."""
        with self._turn:
            opened = self._search()
            if opened is None:
                return None
            try:
                return question(opened)
            except sqlite3.Error as error:
                self._forget()
                raise OutputError(f"{self._path} cannot be read: {error}", reason=str(error)) from error

    def _search(self) -> TrackSearch | None:
        """The index that lies there now."""
        try:
            facts = self._path.stat()
        except OSError:
            self._forget()
            return None
        identity = facts.st_dev, facts.st_ino
        if self._opened is not None and self._opened[0] != identity:
            self._forget()
        if self._opened is None:
            self._opened = identity, TrackSearch(self._path, encoder=self._encoder)
        return self._opened[1]

    def _forget(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None


def _rgb(data: bytes) -> npt.NDArray[np.uint8]:
    """An encoded image as RGB (height, width, 3). Raises ConfigurationError."""
    from sightline_plugins.decode.images import image_surface

    try:
        return rgb_from_surface(image_surface(data, max_pixels=MOST_PIXELS))
    except ValueError as error:
        raise ConfigurationError(f"the image cannot be used: {error}") from error
