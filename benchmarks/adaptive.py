"""What `detect: {every: auto}` saves and loses, beside detecting every frame.

    python -m benchmarks.adaptive ../shared/data [CLIP.mp4 ...] [--rounds 2] [--max-loss 0.01] [--write]

Each clip is decoded, detected, tracked, counted over its lines and written as JSON lines, with every frame and with
`auto` in turn; the figures are CPU time of the process per frame from the first written batch on, so their ratio is
that of streams per core, for streams that go on. Scores are against the truth of a clip where it has one
(`CLIP.mot.txt` beside it, as the sample videos have), else against the smoothed tracks of the run with every frame, as
in `sightline tune`. Clips of the command line are detected by `models/street.onnx`. `panned` is the street, over which
a camera of half its size pans.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.pipelines.document import machine
from sightline import Pipeline
from sightline.media import Batch
from sightline_plugins.commands.evaluate.annotations import Annotations, read_annotations
from sightline_plugins.commands.evaluate.scores import TrackScores, score_tracks
from sightline_plugins.commands.tune.reference import Reference

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks/adaptive.md"
STREET = "models/street.onnx"
SHARED = {
    "one-by-one-person-detection": "FastestDet",
    "bottle-detection": "yolox_nano",
    "car-detection": "FastestDet",
    "street-cars-640x360": "yolox_nano",
    "crowd-faces-800x450": "yolox_nano",
}
LARGER = {"one-by-one-person-detection": "yolox_nano", "car-detection": "yolox_nano"}
"""Clips again, with a detector that takes three times as long."""
NEVER = 10_000
"""An interval at which hardly a frame is detected: what is left is the least that a frame takes."""
VISIBLE = 0.1
"""Share of an object in view from which the truth of a sample clip holds it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A clip and its detector; `title` is the name of the row."""

    name: str
    title: str
    source: str | Mapping[str, Any]
    model: Path
    truth: Path | None = None
    labels: Path | None = None
    classes: tuple[str, ...] = ()

    def lines(self) -> dict[str, Any]:
        """Return the lines of a sample clip, as `lines` takes them."""
        path = None if self.truth is None else self.truth.with_name(f"{self.name}.truth.json")
        known = json.loads(path.read_text())["lines"] if path is not None and path.exists() else ()
        return {line["name"]: {"from": line["from"], "to": line["to"]} for line in known}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: CPU milliseconds a frame, the share of frames that were detected, its tracks and counts."""

    milliseconds: float
    share: float
    tracks: Path
    counts: Mapping[str, Any]
    report: Mapping[str, Any]


def cases(shared: Path, clips: Sequence[Path], folder: Path) -> Iterator[Case]:
    """Yield all clips."""
    for clip in (ROOT / "sample_videos/street.mp4", *clips):
        truth = clip.with_name(f"{clip.stem}.mot.txt")
        yield Case(clip.stem, clip.stem, str(clip), ROOT / STREET, truth if truth.exists() else None)
    models = shared / "models"
    coco = models / "coco80.names"
    campus = shared / "truth/mot/TUD-Campus"
    images = {"uri": str(campus / "img1"), "fps": 25}
    yield Case("TUD-Campus", "TUD-Campus", images, models / "yolox_nano.onnx", campus / "gt.txt", coco, ("person",))
    for name, model in (*SHARED.items(), *LARGER.items()):
        yield Case(
            name, f"{name}, {model}", str(shared / "videos" / f"{name}.mp4"), models / f"{model}.onnx", labels=coco
        )
    yield Case("panned", "panned", str(panned(folder / "panned.mp4")), ROOT / STREET)


def panned(path: Path, *, frames: int = 200) -> Path:
    """Write a clip whose camera pans over the street and back, by two pixels a frame."""
    with av.open(str(ROOT / "sample_videos/street.mp4")) as source, av.open(str(path), "w") as target:
        stream = target.add_stream("libx264", rate=25, options={"crf": "20"})
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        for number, frame in zip(range(frames), source.decode(video=0), strict=False):
            left = abs((2 * number + 160) % 640 - 320)
            rgb = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)[160:340, left : left + 320]
            target.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")))
        target.mux(stream.encode())
    return path


def run(case: Case, *, every: int | str, max_loss: float, folder: Path) -> Outcome:
    """Run a clip."""
    detect: dict[str, Any] = {"model": str(case.model), "every": every}
    if every == "auto":
        detect["budget"] = {"max_loss": max_loss}
    if case.labels is not None:
        detect["labels"] = str(case.labels)
    if case.classes:
        detect["classes"] = list(case.classes)
    path = folder / f"{case.name}-{every}.jsonl"
    steps: list[Any] = [{"detect": detect}, "track"]
    if case.lines():
        steps.append({"lines": case.lines()})
    pipeline = Pipeline(sources={"clip": case.source}, steps=[*steps, {"jsonl": {"path": str(path)}}])
    begin: list[tuple[float, int]] = []

    def note(batch: Batch) -> None:
        if not begin:
            begin.append((time.process_time(), len(batch)))

    pipeline.probe("jsonl-1", note)
    totals = pipeline.run().totals
    end = time.process_time()
    frames = sum(1 for _ in path.open())
    [(start, before)] = begin
    report = totals["detect-1"].get("adaptive", {}).get("clip", {})
    share = totals["detect-1"]["runs"] / frames
    return Outcome(
        (end - start) * 1000 / (frames - before), share, path, totals.get("lines-1", {}).get("clip", {}), report
    )


def truth_of(case: Case, every: Outcome) -> Annotations:
    """Return what tracks are scored against."""
    if case.truth is None:
        first, *_, last = (json.loads(line)["pts_ns"] for line in every.tracks.open())
        count = sum(1 for _ in every.tracks.open())
        return Reference(_one_class(read_annotations(every.tracks)), fps=1e9 * (count - 1) / (last - first)).truth
    found = read_annotations(case.truth, truth=True)
    rows = np.loadtxt(case.truth, delimiter=",", ndmin=2)
    if case.lines():
        found = found.select(rows[:, 8] >= VISIBLE)
    return _one_class(found)


def scores(outcome: Outcome, truth: Annotations) -> TrackScores:
    """Return the scores of a run."""
    return score_tracks(_one_class(read_annotations(outcome.tracks)), truth=truth)


def _one_class(table: Annotations) -> Annotations:
    return replace(table, label=np.full(len(table), "object"))


def row(case: Case, *, rounds: int, max_loss: float, folder: Path) -> str:
    """Measure a clip, and return its row of the table."""
    ratios: list[float] = []
    found: dict[int | str, Outcome] = {}
    for _ in range(rounds):
        every: int | str
        for every in (1, "auto", NEVER):
            found[every] = run(case, every=every, max_loss=max_loss, folder=folder)
        ratios.append(found[1].milliseconds / found["auto"].milliseconds)
    full, auto, floor = found[1], found["auto"], found[NEVER]
    truth = truth_of(case, full)
    was, now = scores(full, truth), scores(auto, truth)
    reasons = ", ".join(f"{name} {count}" for name, count in auto.report["reasons"].items())
    counts = "" if not full.counts else "the same" if full.counts == auto.counts else f"{full.counts} → {auto.counts}"
    most = full.milliseconds / floor.milliseconds
    return (
        f"| {case.title}{'' if case.truth else ' *'} | {auto.share:.0%} | {full.milliseconds:.1f} → "
        f"{auto.milliseconds:.1f} | **{np.median(ratios):.2f}** | {most:.1f} | "
        f"{was.hota * 100:.1f} → {now.hota * 100:.1f} | "
        f"{was.idf1 * 100:.1f} → {now.idf1 * 100:.1f} | {counts} | {reasons} |"
    )


HEAD = """\
# Detecting where it pays

{date}, {machine}; `python -m benchmarks.adaptive ../shared/data --write`. `every: auto` with `max_loss: {max_loss}`
beside detecting every frame, in turn; CPU milliseconds a frame of the whole pipeline, and their ratio (median of
rounds, here {rounds}), which is that of streams per core, without what starting takes; "at most" is this ratio for
frames without the network, the ceiling of any decision.
HOTA and IDF1 from every frame to `auto`, in hundredths.
Clips with a star have no truth: both runs are scored against the tracks of every frame, smoothed in time, as `sightline
tune` does it. That overestimates what is lost: where there is truth, about two to four times.
`street101`, `street202` and `quiet303` are streets of the sample world with other seeds (the last one with little
traffic), which are not in the repository; `panned` is the street seen by a camera that pans.

| clip | detected | CPU ms | streams per core | at most | HOTA | IDF1 | line counts | runs by reason |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    parser.add_argument("clips", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--max-loss", type=float, default=0.01)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    asked = parser.parse_args()
    head = HEAD.format(
        date=dt.datetime.now(dt.UTC).date(),
        machine=machine(),
        max_loss=asked.max_loss,
        rounds=asked.rounds,
    )
    print(head, end="")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases(asked.shared, asked.clips, folder):
            rows.append(row(case, rounds=asked.rounds, max_loss=asked.max_loss, folder=folder))
            print(rows[-1], flush=True)
    if asked.write:
        PAGE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
