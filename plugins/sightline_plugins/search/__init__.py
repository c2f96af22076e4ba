"""Search tracks in words: `search`, or `TrackSearch` for an index that stays open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.graph.track_search import FoundTrack, SearchResult
    from sightline_plugins.search.searching import TrackSearch, search

__all__ = ["FoundTrack", "SearchResult", "TrackSearch", "search"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sightline_plugins.search import searching

    return getattr(searching, name)
