"""What a text asks for: stream names, labels, times and directions become filters, and the rest is for the vector."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from sightline.graph.track_search import TrackQuery
from sightline_plugins.search.moments import read_moments
from sightline_plugins.search.motion import read_direction

WORDS_OF_LABELS: dict[str, tuple[str, ...]] = {
    "person": ("people", "pedestrian", "somebody", "someone", "human", "walker", "man", "woman", "men", "women",
               "child", "children", "kid", "boy", "girl"),
    "bicycle": ("bike", "cyclist", "bicyclist", "biker"),
    "motorcycle": ("motorbike", "scooter"),
    "car": ("automobile", "sedan", "hatchback"),
    "van": ("minivan", "transporter"),
    "truck": ("lorry", "lorries"),
    "bus": ("buses", "coach", "omnibus"),
    "dog": ("dogs",),
}  # fmt: skip
"""What else people call the objects with a label, beside the label itself and its plural."""
GROUPS = {
    "vehicle": ("car", "van", "truck", "bus", "motorcycle"),
    "traffic": ("car", "van", "truck", "bus", "motorcycle", "bicycle"),
    "animal": ("dog", "cat", "bird", "horse", "cow", "sheep"),
}
"""Words for several labels."""
_BEFORE_A_PLACE = r"(?:(?:at|in|on|from|near|by|of)\s+)?(?:the\s+)?(?:camera\s+|stream\s+)?"


def understand(
    text: str, *, streams: Sequence[str], labels: Sequence[str], now: datetime, has_times: bool = True
) -> TrackQuery:
    """Return what a text asks for of these streams and labels; `now` is with the zone that its times are of.

    Where no time of day is known (`has_times`), a part of every day ("at night") stays a word for the vector. Raises
    UnclearTime.
    """
    lowered = " ".join(text.lower().replace(",", " ").replace("?", " ").split())
    found_streams, rest = _streams(lowered, streams)
    moments = read_moments(rest, now=now)
    if moments.daily is None or has_times:
        rest = moments.rest
    daily = moments.daily if has_times else None
    found_labels = tuple(_labels(rest, labels)) or None
    direction, rest = read_direction(rest)
    since, until = moments.since, moments.until
    return TrackQuery(rest, tuple(found_streams) or None, found_labels, since, until, daily, now, direction)


def _streams(text: str, names: Sequence[str]) -> tuple[list[str], str]:
    """The streams that a text names, and the text without them; longer names go first, `yard-2` before `yard`."""
    found = []
    for name in sorted(names, key=len, reverse=True):
        spoken = r"[\s_.-]+".join(re.escape(part) for part in re.split(r"[\s_.-]+", name.lower()) if part)
        pattern = re.compile(rf"(?<![\w-]){_BEFORE_A_PLACE}{spoken}(?![\w-])")
        if spoken and pattern.search(text):
            found.append(name)
            text = " ".join(pattern.sub(" ", text).split())
    return sorted(found), text


def _labels(text: str, labels: Iterable[str]) -> Iterator[str]:
    """The labels that a text names."""
    said = set(re.findall(r"[\w-]+", text))
    groups = {label for word, members in GROUPS.items() if said & set(_forms(word)) for label in members}
    for label in labels:
        parts = label.lower().replace("_", " ")
        words = {*_forms(parts), *(form for word in WORDS_OF_LABELS.get(parts, ()) for form in _forms(word))}
        if label in groups or words & said or (" " in parts and re.search(rf"\b{re.escape(parts)}s?\b", text)):
            yield label


def _forms(word: str) -> tuple[str, ...]:
    """A word and its plurals."""
    return word, f"{word}s", f"{word}es", *([f"{word[:-1]}ies"] if word.endswith("y") else [])
