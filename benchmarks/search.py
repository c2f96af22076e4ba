"""Search in words: whether the right track is found, and what a search among a million vectors and indexing cost.

    python -m benchmarks.search questions [--clips 20] [--questions 50] [--folder /tmp/clips]
    python -m benchmarks.search vectors   [--tracks 1000000]
    python -m benchmarks.search cost      CLIP.mp4 ... [--model models/street.onnx] [--rounds 3]

`questions` renders clips of the sample world from seeds that no model has seen (960000 on), codes them, indexes them
with the boxes of their truth, and asks in the words of the captions and in others. `vectors` compares each search with
brute force in float32. `cost` runs a pipeline with and without `search_index` in turn, and prints what the step takes
in it. CPU times, medians.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from tools.train.search_captions import Caption
from tools.train.search_questions import (
    Question,
    described_tracks,
    questions,
    questions_in_other_words,
    rightly,
    rows_of,
    write_boxes,
)
from tools.train.search_samples import Described
from tools.train.worlds import random_scene
from tools.world.arrays import RgbImage
from tools.world.render import Renderer, Truth
from tools.world.scene import Scene
from tools.world.writer import write_video

from benchmarks.graph_passes import ROOT, processor
from sightline import Pipeline
from sightline.runtime.stats.report import Report
from sightline_plugins.search import TrackSearch
from sightline_plugins.search.encoders import EncoderFolder, ImageEncoder
from sightline_plugins.search.vectors import TrackVectors

FIRST_SEED = 960_000
_FPS, _FRAMES = 5, 24
_OTHER_WORDS = {
    "away": "that drives off", "towards": "on its way here", "left": "going leftwards", "right": "moving to the right",
}  # fmt: skip
_NOUNS = {
    "person": "pedestrian",
    "bicycle": "cyclist",
    "car": "automobile",
    "van": "van",
    "truck": "lorry",
    "bus": "bus",
}


def render_clips(folder: Path, *, clips: int) -> dict[str, Scene]:
    """Render the clips that the folder does not hold yet, with their boxes; return the scene of each."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = {}
    for seed in range(FIRST_SEED, FIRST_SEED + clips):
        name = f"c{seed}"
        scene = scenes[name] = random_scene(seed, fps=_FPS, frames=_FRAMES)
        if not (folder / f"{name}.jsonl").exists():
            rendered, truths = Renderer(scene), list[Truth]()

            def images() -> Iterator[RgbImage]:
                for number in range(_FRAMES):
                    image, truth = rendered.frame(number)  # noqa: B023 - used up within the turn
                    truths.append(truth)  # noqa: B023
                    yield image

            write_video(
                images(), path=folder / f"{name}.mp4", size_wh=scene.size_wh, fps=_FPS, crf=26, preset="veryfast"
            )
            write_boxes(rows_of(truths), stream=name, path=folder / f"{name}.jsonl")
    return scenes


def in_other_words(tracks: Mapping[tuple[str, int], Described], *, count: int) -> list[Question]:
    """Questions in wordings of which captions have none, each true of few tracks."""
    rng = np.random.default_rng(64)
    asked: dict[str, Question] = {}
    names = sorted(tracks)
    for _ in range(count * 40):
        what = tracks[names[rng.integers(len(names))]]
        clothes = f"dressed in {what.colour}" if what.kind == "person" else ""
        parts = ("is there", "" if clothes else what.colour, _NOUNS[what.kind], clothes, _OTHER_WORDS[what.heading])
        text = " ".join(part for part in parts if part)
        right = rightly(Caption(text, kind=what.kind, colour=what.colour, heading=what.heading), tracks)
        if len(right) <= 4:
            asked.setdefault(text, Question(text, right))
        if len(asked) == count:
            break
    return list(asked.values())


def ask(arguments: argparse.Namespace) -> None:
    """Print the share of questions of which a right track is the first, or among the first three."""
    scenes = render_clips(arguments.folder, clips=arguments.clips)
    with tempfile.TemporaryDirectory() as folder:
        steps: list[Mapping[str, object]] = [
            {"replay": {"path": str(arguments.folder / "{stream}.jsonl"), "ids": True}},
            {"search_index": {"path": "tracks.db", "encoder": str(arguments.encoder)}},
        ]
        sources = {name: str(arguments.folder / f"{name}.mp4") for name in scenes}
        Pipeline(sources=sources, steps=steps, outputs=Path(folder)).run()
        index = Path(folder) / "tracks.db"
        tracks = described_tracks(index, scenes)
        print(f"{len(scenes)} clips, {len(tracks)} tracks; {processor()}")
        sets = {
            "captions": questions(tracks, count=arguments.questions, seed=7),
            "other words": in_other_words(tracks, count=arguments.questions),
            "held-out wordings": questions_in_other_words(tracks, count=2 * arguments.questions, seed=7),
        }
        with TrackSearch(index) as opened:
            for name, asked in sets.items():
                _print_answers(name, asked, opened)


def _print_answers(name: str, asked: Sequence[Question], opened: TrackSearch) -> None:
    first, third, wrong = 0, 0, []
    for question in asked:
        found = [(track.stream, track.track_id) for track in opened.search(question.text, count=3).tracks]
        first += bool(found) and found[0] in question.right
        third += bool(set(found) & question.right)
        if not set(found) & question.right:
            wrong.append(question.text)
    total, guess = len(asked), statistics.mean(len(question.right) for question in asked)
    print(f"{name}: {total} questions, each true of {guess:.1f} tracks: first {first / total:.0%}, ", end="")
    print(f"among the first three {third / total:.0%}; wrong: {', '.join(wrong) or 'none'}")


def vectors(arguments: argparse.Namespace) -> None:
    """Print CPU time, memory and recall of searches, without filters and with."""
    count, dimensions, rng = arguments.tracks, 512, np.random.default_rng(5)
    centres = rng.standard_normal((count // 200 + 1, dimensions), dtype=np.float32)
    codes, factors = np.empty((count, dimensions), np.int8), np.empty(count, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for start in range(0, count, 50_000):
        part = slice(start, min(start + 50_000, count))
        drawn = _drawn(centres, part, rng)
        factors[part] = np.abs(drawn).max(axis=1) / 127
        codes[part] = np.rint(drawn / factors[part, None])
    numbers = np.arange(count)
    tracks = TrackVectors(
        numbers, numbers, numbers + 5, (numbers % 10).astype(np.int32), (numbers // 7 % 6).astype(np.int32),
        tuple(map(str, range(10))), tuple("abcdef"), (numbers % 5 - 1).astype(np.int8), codes, factors,
    )  # fmt: skip
    filters: Mapping[str, Mapping[str, object]] = {
        "no filter": {},
        "one stream and label": {"streams": ["3"], "labels": ["b"]},
        "a twentieth of the time": {"since_ns": count // 2, "until_ns": count // 2 + count // 20},
    }
    print(f"{count} vectors of {dimensions}; {processor()}")
    queries = [_drawn(centres, slice(number, number + 1), np.random.default_rng(number))[0] for number in range(9)]
    for name, chosen in filters.items():
        times, found = [], []
        for query in queries:
            began = time.process_time()
            mask = tracks.chosen(**chosen) if chosen else None  # type: ignore[arg-type]
            found.append(tracks.nearest(query, count=10, mask=mask)[0])
            times.append(time.process_time() - began)
        right = [_brute_force(tracks, query, chosen) for query in queries]
        recall = np.mean([len(set(mine.tolist()) & own) / 10 for mine, own in zip(found, right, strict=True)])
        print(f"{name}: {statistics.median(times) * 1000:.1f} ms of CPU, recall at 10 {recall:.3f}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"memory: {grown:.0f} MB more at most")


def _drawn(centres: npt.NDArray[np.float32], part: slice, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Unit vectors in clusters, as those of real tracks are, 200 around each centre."""
    numbers = np.arange(part.start, part.stop) % len(centres)
    drawn = centres[numbers] + rng.standard_normal((len(numbers), centres.shape[1]), dtype=np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def _brute_force(tracks: TrackVectors, query: npt.NDArray[np.float32], chosen: Mapping[str, object]) -> set[int]:
    """The ten nearest by float32, of what the codes stand for."""
    scores = np.empty(len(tracks.ids), np.float32)
    for start in range(0, len(scores), 50_000):
        part = slice(start, start + 50_000)
        scores[part] = (tracks.codes[part].astype(np.float32) @ query) * tracks.factors[part]
    scores[~tracks.chosen(**chosen)] = -2  # type: ignore[arg-type]
    return set(np.argsort(-scores)[:10].tolist())


def cost(arguments: argparse.Namespace) -> None:
    """Print what the step takes beside the rest of its pipeline, and the ratio to a run without it.

    The first is the CPU time of the step and of its encoder's threads in one and the same run, which other programs on
    the machine hardly change; the second has everything, measured in turn.
    """
    each = _encoding_seconds(arguments.encoder)
    print(f"{processor()}; an encoding takes {each * 1000:.2f} ms of CPU beside the step")
    for path in arguments.clip:
        ratios, shares, encoded = [], [], 0
        for _ in range(arguments.rounds):
            alone = _run(arguments, path, ())
            report = _run(arguments, path, ({"search_index": {"path": "t.db", "encoder": str(arguments.encoder)}},))
            encoded = report.totals["search_index-1"][path.stem]["encoded"]
            step = report.to_json()["elements"]["search_index-1"]["cpu_seconds"] + encoded * each
            shares.append(step / (report.cpu_seconds - step))
            ratios.append(report.cpu_seconds / alone.cpu_seconds)
        print(f"{path.name}: {encoded} vectors, share of the step {statistics.median(shares):.1%}", end=", ")
        print(f"with it beside without {statistics.median(ratios) - 1:+.1%} ({min(ratios) - 1:+.1%} to ", end="")
        print(f"{max(ratios) - 1:+.1%}); medians of {arguments.rounds}")


def _run(arguments: argparse.Namespace, path: Path, step: Sequence[Mapping[str, object]]) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        steps: list[Mapping[str, object] | str] = [{"detect": {"model": str(arguments.model)}}, "track", *step]
        return Pipeline(sources={path.stem: str(path)}, steps=steps, outputs=Path(folder)).run()


def _encoding_seconds(folder: Path) -> float:
    """The CPU time of one encoding in the threads of the engine, beside the one that asks."""
    encoder = ImageEncoder(EncoderFolder.at(folder))
    image = np.random.default_rng(0).integers(0, 256, (160, 96, 3)).astype(np.uint8)
    seconds = []
    for _ in range(7):
        began = time.process_time() - time.thread_time()
        for _ in range(20):
            encoder.encode(image)
        seconds.append((time.process_time() - time.thread_time() - began) / 20)
    encoder.close()
    return statistics.median(seconds)


def main() -> None:
    """Run the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, default=ROOT / "models/search")
    parts = parser.add_subparsers(required=True)
    asking = parts.add_parser("questions")
    asking.add_argument("--clips", type=int, default=20)
    asking.add_argument("--questions", type=int, default=50)
    asking.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "sightline-search-clips")
    asking.set_defaults(run=ask)
    searching = parts.add_parser("vectors")
    searching.add_argument("--tracks", type=int, default=1_000_000)
    searching.set_defaults(run=vectors)
    costing = parts.add_parser("cost")
    costing.add_argument("clip", type=Path, nargs="+")
    costing.add_argument("--model", type=Path, default=ROOT / "models/street.onnx")
    costing.add_argument("--rounds", type=int, default=3)
    costing.set_defaults(run=cost)
    cv2.setNumThreads(1)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
