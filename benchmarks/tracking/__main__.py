"""Compare the trackers of this project with public ones: scores at four frame rates, crossings, cost, timelines.

    python -m benchmarks.tracking ../shared/data [--write] [--note]

`--write` writes the page; `--note` measures the public trackers that are installed and notes their figures, which are
used wherever they are not. Scores are those of TrackEval for the detections that come with the sequences, each tracker
with its defaults; thinned sequences keep every second, third or sixth frame. Images go to `out/tracking`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean

import numpy as np
from benchmarks.tracking.contestants import NOTED, Maker, noted, own_trackers, public_trackers, scores_of, tracks_of
from benchmarks.tracking.page import EVERY, STEPS, Figures, Measured, text, write
from benchmarks.tracking.samples import CLIPS, sample_clip
from benchmarks.tracking.scenes import DETECTORS, SCENES, made
from benchmarks.tracking.sequences import SEQUENCES, Sequence, read_sequence
from benchmarks.tracking.speed import speeds
from benchmarks.tracking.timelines import save, timelines
from benchmarks.tracking.walkers import RATES, totals
from benchmarks.tracking.weak import as_tall_as_the_truth, seen_by_fastestdet, squeezed

ROOT = Path(__file__).resolve().parents[2]
CROWDS = (40, 110)
DRAWN = (("trackers.CBIoUTracker", "adaptive"), 1), (("trackers.ByteTrackTracker", "adaptive"), 3)


def sequences(shared: Path) -> dict[str, Sequence]:
    """All sequences by name: the shared ones, those as weak detectors see them, and made ones."""
    folder = shared / "truth" / "mot"
    public = [read_sequence(folder / name) for name in SEQUENCES]
    fastestdet = seen_by_fastestdet(
        public[0], images=folder / "TUD-Campus" / "img1", model=shared / "models" / "FastestDet.onnx"
    )
    scenes = [made(kind, detector) for kind in SCENES for detector in DETECTORS]
    weak = [*map(squeezed, public), as_tall_as_the_truth(fastestdet)]
    return {one.name: one for one in (*public, *weak, *scenes)}


def scored(makers: Mapping[str, Maker], known: Iterable[Sequence]) -> Figures:
    """HOTA, MOTA, IDF1 and switches by tracker and `SEQUENCE/STEP`."""
    figures: Figures = {name: {} for name in makers}
    for sequence in known:
        for step in STEPS:
            thinned = sequence.thinned(step)
            for name, maker in makers.items():
                scores = scores_of(thinned, maker)
                row = (round(scores.hota, 4), round(scores.mota, 4), round(scores.idf1, 4), scores.switches)
                figures[name][f"{sequence.name}/{step}"] = row
        print(sequence.name, flush=True)
    return figures


def every_so_many(makers: Mapping[str, Maker], known: list[Sequence]) -> dict[str, list[tuple[float, float]]]:
    """Mean HOTA and IDF1 on all frames, by tracker, when the detector looks at every 2nd, 3rd or 5th."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, maker in makers.items():
        scores = [[scores_of(sequence, maker, every=every) for sequence in known] for every in EVERY]
        found[name] = [(fmean(one.hota for one in row), fmean(one.idf1 for one in row)) for row in scores]
    return found


def crossings(makers: Mapping[str, Maker]) -> dict[str, list[list[int]]]:
    """By tracker: for each crowd and rate, line crossings there are and found, zone entries there are and found."""
    found: dict[str, list[list[int]]] = {}
    for name, maker in makers.items():
        walks = [totals(maker, count=count, fps=fps) for count in CROWDS for fps in RATES]
        found[name] = [[number for pair in walk.values() for number in pair] for walk in walks]
        print(name, flush=True)
    return found


def draw(known: Mapping[str, Sequence], makers: Mapping[str, Maker], *, folder: Path) -> None:
    """Write an image of each shared sequence for each pair of trackers that can both be run."""
    for pair, step in DRAWN:
        if not all(name in makers for name in pair):
            continue
        for name in SEQUENCES:
            sequence = known[name].thinned(step)
            image = timelines(sequence, {one: tracks_of(sequence, makers[one]) for one in pair})
            save(image, folder / f"{name}-{step}.png")


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/tracking.md")
    parser.add_argument("--note", action="store_true", help="note the figures of public trackers")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # public trackers deprecate themselves at length
    known = sequences(asked.shared)
    scored_on = [*known.values(), *map(sample_clip, CLIPS)]
    own, public = own_trackers(), public_trackers()
    if asked.note:
        note = {
            "scores": scored(public, scored_on),
            "crossings": crossings(public),
            "every": every_so_many(public, [known[name] for name in SEQUENCES]),
        }
        NOTED.write_text(json.dumps(note, indent=1) + "\n")
    others = noted()
    measured = Measured(
        scores={**scored(own, scored_on), **others["scores"]},
        crossings={**crossings(own), **others["crossings"]},
        every={**every_so_many(own, [known[name] for name in SEQUENCES]), **others["every"]},
        speeds=speeds({**own, **public}),
        kinds=tuple(SCENES),
        detectors=tuple(DETECTORS),
    )
    print(text(measured))
    draw(known, {**own, **public}, folder=ROOT / "out" / "tracking")
    if asked.write:
        write(measured, ROOT / "docs" / "benchmarks" / "tracking.md")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
