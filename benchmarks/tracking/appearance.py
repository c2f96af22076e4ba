"""What appearance gains in tracking: `python -m benchmarks.tracking.appearance ../shared/data`.

The shared sequences come without embeddings, so each identity of the truth gets a vector, and each detection that
overlaps it this vector with noise, the more of it the more others cover it. Strangers and the same person are as
similar as embeddings of four kinds make them; those of the last kind tell nothing. Scores are HOTA / IDF1, each the
mean of the sequences or of the made scenes, at a full, a third and a sixth of the frame rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.__main__ import sequences
from benchmarks.tracking.contestants import Maker, scores_of
from benchmarks.tracking.sequences import SEQUENCES, Floats, Integers, Sequence

from sightline.graph.tracker import Tracker, TrackerOptions, Vectors
from sightline.media.boxes import iou_matrix
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.deepocsort import DeepOCSortOptions

Doubles = npt.NDArray[np.float64]
STEPS = (1, 3, 6)
DIMENSIONS = 64
_OWN_OVERLAP = 0.5
_HIDDEN_NOISE = 2.0
"""How much more noise a detection has that another one covers."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Embeddings: the share that all people have in common, and the noise of each detection."""

    common: float
    noise: float


KINDS: Mapping[str, Kind] = {
    "distinct": Kind(0.1, 0.5),
    "alike": Kind(0.65, 0.25),
    "noisy": Kind(0.5, 0.9),
    "useless": Kind(0.5, 50.0),
}


def vectors_of(sequence: Sequence, kind: Kind, *, seed: int = 0) -> list[Vectors]:
    """Return the made embeddings of the detections of each frame, (N, 64)."""
    random = np.random.default_rng(seed)
    people: dict[int, Doubles] = {}
    shared = _unit(random.normal(size=DIMENSIONS))
    truth = sequence.truth
    made = []
    for frame, (xyxy, _) in enumerate(sequence.by_frame(), 1):
        there = truth.where(truth.frame == frame)
        overlap = iou_matrix(xyxy, there.xyxy)
        covered = iou_matrix(xyxy, xyxy)
        np.fill_diagonal(covered, 0)
        noise = kind.noise * (1 + _HIDDEN_NOISE * covered.max(axis=1, initial=0))
        rows = np.empty((len(xyxy), DIMENSIONS))
        for row in range(len(xyxy)):
            best = int(overlap[row].argmax()) if overlap.shape[1] else -1
            if best >= 0 and overlap[row, best] > _OWN_OVERLAP:
                own = people.setdefault(int(there.identity[best]), _unit(random.normal(size=DIMENSIONS)))
            else:
                own = _unit(random.normal(size=DIMENSIONS))
            rows[row] = np.sqrt(kind.common) * shared + np.sqrt(1 - kind.common) * own
        rows += noise[:, None] * random.normal(size=rows.shape) / np.sqrt(DIMENSIONS)
        made.append(_unit(rows).astype(np.float32))
    return made


def _unit(vectors: Doubles) -> Doubles:
    found: Doubles = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


@dataclass(slots=True)
class _Seeing:
    """A tracker that gets embeddings."""

    tracker: Tracker
    vectors: Iterator[Vectors]
    compares: bool

    def update(self, xyxy: Floats, confidence: Floats, pts_ns: int) -> tuple[Floats, Integers]:
        if self.compares:
            self.tracker.compare_by(next(self.vectors))
        return xyxy, self.tracker.update(xyxy, confidence, np.zeros(len(xyxy), np.int64), pts_ns=pts_ns)

    def expected(self, pts_ns: int) -> tuple[Floats, Integers]:
        found = self.tracker.predict(pts_ns=pts_ns)
        return found.xyxy, found.track_id


def seeing(options: TrackerOptions, vectors: list[Vectors]) -> Maker:
    """Return a maker of a tracker that gets these embeddings, frame by frame, if it needs them."""
    return lambda _fps: _Seeing(options.build(), iter(vectors), options.needs_appearance)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    asked = parser.parse_args()
    known = sequences(asked.shared)
    groups = {
        "shared": [known[name] for name in SEQUENCES],
        "made": [one for name, one in known.items() if name.endswith("fair")],
    }
    plain = AdaptiveOptions()
    contestants: dict[str, tuple[TrackerOptions, str | None]] = {
        "without": (plain, None),
        **{f"appearance, {kind}": (AdaptiveOptions(appearance=True), kind) for kind in KINDS},
        "without, max_lost 6s": (AdaptiveOptions.model_validate({"max_lost": "6s"}), None),
        **{
            f"appearance, {kind}, max_lost 6s": (
                AdaptiveOptions.model_validate({"max_lost": "6s", "appearance": True}),
                kind,
            )
            for kind in KINDS
        },
    }
    contestants["appearance, alike, reidentify_within 0s"] = (
        AdaptiveOptions.model_validate({"appearance": True, "reidentify_within": "0s"}),
        "alike",
    )
    contestants |= {f"deepocsort, {kind}": (DeepOCSortOptions(), kind) for kind in KINDS}
    print("| | " + " | ".join(f"{group}, every {step}" for group in groups for step in STEPS) + " |")
    print("|---" * (1 + len(groups) * len(STEPS)) + "|")
    for name, (options, kind) in contestants.items():
        cells = []
        for recordings in groups.values():
            for step in STEPS:
                scores = []
                for recording in recordings:
                    thinned = recording.thinned(step)
                    vectors = vectors_of(thinned, KINDS[kind or "useless"])
                    scores.append(scores_of(thinned, seeing(options, vectors)))
                cells.append(f"{fmean(one.hota for one in scores):.3f} / {fmean(one.idf1 for one in scores):.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
