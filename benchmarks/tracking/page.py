"""The page of the tracking benchmark: every tracker beside every other one."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from benchmarks.tracking.samples import CLIPS, LEAST_CONFIDENCE, LEAST_VISIBLE
from benchmarks.tracking.sequences import SEQUENCES

Row: TypeAlias = tuple[float, float, float, int]
Figures: TypeAlias = dict[str, dict[str, Row]]
STEPS = (1, 2, 3, 6)
EVERY = (2, 3, 5)
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
WEAK = {
    **{f"{name}, squeezed": f"{name.split('-')[1]}, squeezed" for name in SEQUENCES},
    "TUD-Campus, FastestDet": "Campus, FastestDet",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that the page shows."""

    scores: Mapping[str, Mapping[str, Row]]
    """HOTA, MOTA, IDF1 and switches by tracker and `SEQUENCE/STEP`."""
    crossings: Mapping[str, Sequence[Sequence[int]]]
    """By tracker, for forty people and a crowd at each rate: line crossings there are and found, zone entries too."""
    every: Mapping[str, Sequence[tuple[float, float]]]
    """By tracker, for each of `EVERY`: mean HOTA and IDF1 of the shared sequences, on all frames."""
    speeds: Mapping[str, Sequence[tuple[float, float]]]
    """By tracker, at 5 and at 100 objects: milliseconds a frame, and the ratio to the default tracker."""
    kinds: Sequence[str]
    detectors: Sequence[str]


def text(measured: Measured) -> str:
    """Return the tables."""
    return "\n\n".join(
        [
            *_shared(measured),
            *_every(measured),
            *_made(measured),
            _weak(measured),
            *_samples(measured),
            *_crossings(measured),
            _speed(measured),
        ]
    )


def write(measured: Measured, page: Path) -> None:
    """Put the tables between the marks of the page."""
    page.write_text(between_marks(page.read_text(), text(measured), begin=BEGIN, end=END))


def between_marks(page: str, tables: str, *, begin: str, end: str) -> str:
    """Return the page with these tables between two marks."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{tables}\n\n{end}{after}"


def _shared(measured: Measured) -> Iterable[str]:
    yield "## Shared sequences"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "trackeval"))
    about = f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, {versions}"
    yield f"{about}.\nHOTA / IDF1 for the detections of each sequence, defaults everywhere, the best mean first."
    for name in SEQUENCES:
        yield f"### {name}\n\n" + _by_rate(measured, [name])
    yield "### Mean of the three\n\n" + _by_rate(measured, SEQUENCES)


def _made(measured: Measured) -> Iterable[str]:
    kinds, detectors = measured.kinds, measured.detectors
    names = [f"{kind}, {detector}" for kind in kinds for detector in detectors]
    ordered = _ordered(measured, names)

    def table(head: Sequence[str], names_of: Callable[[str], Sequence[str]]) -> str:
        keys = {column: [f"{name}/{step}" for name in names_of(column) for step in STEPS] for column in head}
        rows = {tracker: [_pair(scores, keys[column]) for column in head] for tracker, scores in ordered}
        return _table(["tracker", *head], rows)

    yield f"## Made scenes\n\nMean of {len(kinds)} kinds of scenes, each seen by {len(detectors)} detectors."
    yield _by_rate(measured, names)
    yield "By kind, mean of the detectors and the four rates:"
    yield table(kinds, lambda kind: [f"{kind}, {detector}" for detector in detectors])
    yield "By detector:"
    yield table(detectors, lambda detector: [f"{kind}, {detector}" for kind in kinds])


def _every(measured: Measured) -> Iterable[str]:
    yield (
        "## Detecting on every so many frames\n\n"
        "Mean of the shared sequences, scored on all frames; between detections a tracker says where it expects\n"
        "objects. No public tracker does; their boxes stay where they were."
    )
    order = sorted(measured.every.items(), key=lambda item: -sum(map(sum, item[1])))
    rows = {
        tracker: [f"{hota:.3f} / {idf1:.3f}".replace("0.", ".") for hota, idf1 in cells] for tracker, cells in order
    }
    yield _table(["tracker", *(f"`every: {every}`" for every in EVERY)], rows)


def _weak(measured: Measured) -> str:
    known = [name for name in WEAK if f"{name}/1" in next(iter(measured.scores.values()))]
    rows = {tracker: [_pair(scores, [f"{name}/1"]) for name in known] for tracker, scores in _ordered(measured, known)}
    return (
        "## Weak detectors\n\n"
        "Confidences of the shared sequences mapped linearly into 0.35 to 0.6, and FastestDet's own\n"
        "detections (confidence 0.3 and more, boxes as tall as annotated ones) on the images of TUD-Campus.\n\n"
        + _table(["tracker", *(WEAK[name] for name in known)], rows)
    )


def _samples(measured: Measured) -> Iterable[str]:
    yield (
        "## Sample clips\n\n"
        "The clips in `sample_videos` as `models/street.onnx` sees them, which was trained on other scenes of the "
        f"same\ngenerator: detections from a confidence of {LEAST_CONFIDENCE} on, truth of objects of which "
        f"{LEAST_VISIBLE:.0%} or more are in view.\nThe mean of the four:"
    )
    yield _by_rate(measured, CLIPS)
    yield "By clip, every frame:"
    ordered = _ordered(measured, CLIPS)
    yield _table(
        ["tracker", *CLIPS],
        {tracker: [_pair(scores, [f"{name}/1"]) for name in CLIPS] for tracker, scores in ordered},
    )


def _crossings(measured: Measured) -> Iterable[str]:
    yield "## Line crossings and zone entries\n\nFound / there, four walks each; see `benchmarks/tracking/walkers.py`."
    rates = ("5", "12", "30", "60")
    for first, title in ((0, "Forty people"), (4, "A crowd of 110")):
        rows = {
            tracker: [f"{walk[1]} / {walk[0]}, {walk[3]} / {walk[2]}" for walk in walks[first : first + 4]]
            for tracker, walks in measured.crossings.items()
        }
        yield f"{title}: lines, zones\n\n" + _table(["tracker", *(f"{rate} f/s" for rate in rates)], rows)


def _speed(measured: Measured) -> str:
    rows = {
        tracker: [f"{milliseconds:.3f} ms, {ratio:.2f} x" for milliseconds, ratio in cells]
        for tracker, cells in measured.speeds.items()
    }
    return (
        "## Cost\n\nMilliseconds of CPU a frame, and the ratio to the default tracker's in the same run.\n\n"
        + _table(["tracker", "5 objects", "100 objects"], rows)
    )


def _by_rate(measured: Measured, names: Sequence[str]) -> str:
    rows = {
        tracker: [_pair(scores, [f"{name}/{step}" for name in names]) for step in STEPS]
        for tracker, scores in _ordered(measured, names)
    }
    return _table(["tracker", "every frame", "every 2nd", "every 3rd", "every 6th"], rows)


def _ordered(measured: Measured, names: Sequence[str]) -> list[tuple[str, Mapping[str, Row]]]:
    """Return trackers with their scores, the best mean first."""
    keys = [f"{name}/{step}" for name in names for step in STEPS]
    return sorted(measured.scores.items(), key=lambda item: -fmean(item[1][key][0] + item[1][key][2] for key in keys))


def _pair(scores: Mapping[str, Row], keys: Sequence[str]) -> str:
    hota, idf1 = (fmean(scores[key][column] for key in keys) for column in (0, 2))
    return f"{hota:.3f} / {idf1:.3f}".replace("0.", ".")


def _table(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head)]
    lines += [[f"**{name}**" if name == "adaptive" else name, *cells] for name, cells in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
