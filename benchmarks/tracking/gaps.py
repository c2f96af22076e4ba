"""Do ids survive when a camera was gone? `python -m benchmarks.tracking.gaps ../shared/data`.

Frames are left out of a sequence at several places while its clock goes on, as after a reconnection. Those who were in
view in the last second before and within two seconds after have the id that they had (kept), one that nobody had (new),
or that of another one (exchanged); newcomers should not have an id that another one had (exchanged as well). Made
scenes have made vectors (`appearance.py`), the people of the sample clips those of OSNet x0.25.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence as Several
from pathlib import Path

import numpy as np
from benchmarks.tracking.appearance import KINDS, vectors_of
from benchmarks.tracking.samples import people_of
from benchmarks.tracking.scenes import SCENES, made
from benchmarks.tracking.sequences import Floats, Integers, Sequence

from sightline.graph.tracker import TrackerOptions, Vectors
from sightline.media.boxes import iou_matrix
from sightline_plugins.track.adaptive_options import AdaptiveOptions

OWN_OVERLAP = 0.5
BEFORE_SECONDS, AFTER_SECONDS = 1.0, 2.0
GAPS_SECONDS = (1, 3, 6)
BEGINNINGS = (0.3, 0.4, 0.5, 0.6)
"""Where gaps begin, as shares of a sequence."""
PEOPLE_CLIPS = ("street", "entrance", "dusk")

Recording = tuple[Sequence, list[Vectors]]


def owners(sequence: Sequence, frame: int, xyxy: Floats, track_id: Integers) -> dict[int, int]:
    """Return the track of each identity that is tracked on a frame."""
    there = sequence.truth.where(sequence.truth.frame == frame)
    rows = (track_id >= 0).nonzero()[0]
    if not len(rows) or not len(there.xyxy):
        return {}
    overlap = iou_matrix(xyxy[rows], there.xyxy)
    best = overlap.argmax(axis=1)
    own = (overlap.max(axis=1) > OWN_OVERLAP) & (overlap.argmax(axis=0)[best] == np.arange(len(rows)))
    return dict(zip(there.identity[best[own]].tolist(), track_id[rows[own]].tolist(), strict=True))


def around_gap(recording: Recording, options: TrackerOptions, *, first: int, last: int) -> Counter[str]:
    """Count `kept`, `new` and `exchanged` ids when the frames from `first` to `last` are left out."""
    sequence, vectors = recording
    tracker = options.build()
    owner: dict[int, int] = {}
    before: dict[int, int] = {}
    after: dict[int, Counter[int]] = defaultdict(Counter)
    for frame, (xyxy, confidence) in enumerate(sequence.by_frame(), 1):
        if first <= frame <= last or frame > last + AFTER_SECONDS * sequence.fps:
            continue
        if options.needs_appearance:
            tracker.compare_by(vectors[frame - 1])
        classes = np.zeros(len(xyxy), np.int64)
        track_id = tracker.update(xyxy, confidence, classes, pts_ns=sequence.pts_ns(frame))
        for identity, own in owners(sequence, frame, xyxy, track_id).items():
            if frame > last:
                after[identity][own] += 1
                continue
            owner[own] = identity
            if frame >= first - BEFORE_SECONDS * sequence.fps:
                before[identity] = own
    usual = {identity: counts.most_common(1)[0][0] for identity, counts in after.items()}
    return Counter(
        "exchanged" if owner.get(own, identity) != identity else "kept" if own == before[identity] else "new"
        for identity, own in usual.items()
        if identity in before or owner.get(own, identity) != identity
    )


def around_gaps(recordings: Several[Recording], options: TrackerOptions, *, seconds: float) -> Counter[str]:
    """Count over all recordings, with gaps of this length that begin at several places."""
    found: Counter[str] = Counter()
    for recording in recordings:
        sequence = recording[0]
        for beginning in BEGINNINGS:
            first = int(sequence.frame_count * beginning)
            last = first + round(seconds * sequence.fps) - 1
            if last + sequence.fps <= sequence.frame_count:
                found += around_gap(recording, options, first=first, last=last)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    model = parser.parse_args().shared / "models" / "osnet_x0_25_msmt17.onnx"
    scenes = [made(kind, "fair") for kind in SCENES]
    groups = {
        "made, alike": [(scene, vectors_of(scene, KINDS["alike"])) for scene in scenes],
        "made, noisy": [(scene, vectors_of(scene, KINDS["noisy"])) for scene in scenes],
        "sample clips, OSNet": [people_of(name, model=model) for name in PEOPLE_CLIPS],
    }
    contestants = {
        "without appearance": {},
        "`reidentify_within: 0s`": {"appearance": True, "reidentify_within": "0s"},
        "`reidentify_within: 60s`": {"appearance": True},
    }
    print("| | | " + " | ".join(f"{seconds} s" for seconds in GAPS_SECONDS) + " |")
    print("|---" * (2 + len(GAPS_SECONDS)) + "|")
    for group, recordings in groups.items():
        for name, written in contestants.items():
            options = AdaptiveOptions.model_validate(written)
            counts = [around_gaps(recordings, options, seconds=seconds) for seconds in GAPS_SECONDS]
            cells = [" / ".join(str(count[key]) for key in ("kept", "new", "exchanged")) for count in counts]
            print(f"| {group} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
