"""Decode a few frames of the files among a pipeline's sources, for what elements measure at their first start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice

from sightline.errors import SightlineError
from sightline.graph import Examples, Packets, Site, SourceElement
from sightline.media import Frame, Stream

_MOST_SOURCES = 8
_STEP = 10
"""Of so many frames one is taken: neighbours show the same."""


def examples_of(sources: Mapping[str, SourceElement], site: Site) -> Examples | None:
    """Return frames of the sources that are files; None where there is none.

    Cameras are left out: opening one twice may be refused, and one that does not answer would delay the start. So are
    pipes: what is read from one is gone.
    """
    files = [source for source in sources.values() if not source.live and source.read_once is None][:_MOST_SOURCES]
    if not files:
        return None
    own = replace(site, packets=Packets(), post=lambda _: None)
    names = tuple(map(repr, files))
    return Examples(names, lambda count: _frames(files, own, -(-count // len(files))))


def _frames(files: list[SourceElement], site: Site, of_each: int) -> Iterator[Frame]:
    for source in files:
        with suppress(SightlineError), closing(source.build(site, stream=Stream("example"))) as reader:
            yield from islice(reader.frames(), 0, of_each * _STEP, _STEP)
