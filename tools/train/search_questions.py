"""Questions about clips whose contents are known: of each text, which tracks of an index it is true of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.train.search_captions import COLOURS, HELD_OUT, NOUNS, Caption, caption_of
from tools.train.search_samples import Described, describe_actor
from tools.world.render import Truth
from tools.world.scene import LABELS, Scene
from tools.world.truth import read_mot

Track = tuple[str, int]
"""The name of a stream, and the id of a track."""
MOST_RIGHT = 4
"""A question that is true of more tracks than this is too easy."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text, and the tracks that it is true of."""

    text: str
    right: frozenset[Track]


def write_boxes(rows: np.ndarray, *, stream: str, path: Path) -> None:
    """Write the rows of a clip's truth (`tools.world.truth.table`) as JSON lines, for the step `replay`.

    Only what is at least half visible is written, as a detector would see it.
    """
    frames: dict[int, list[dict[str, object]]] = {}
    for frame, track, label, x0, y0, x1, y1, visibility in rows.tolist():
        if visibility >= 0.5:
            box = {"label": LABELS[int(label)], "class_id": int(label), "confidence": round(visibility, 3)}
            frames.setdefault(int(frame), []).append({**box, "box": [x0, y0, x1, y1], "track_id": int(track)})
    lines = [
        json.dumps({"stream": stream, "frame": frame, "objects": found}) for frame, found in sorted(frames.items())
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_boxes_of_mot(mot: Path, *, stream: str, path: Path) -> None:
    """The same of the truth beside a sample clip."""
    write_boxes(read_mot(mot), stream=stream, path=path)


def rows_of(truths: Sequence[Truth]) -> np.ndarray:
    """The truth of rendered frames as rows."""
    from tools.world.truth import table

    return table(truths)


def described_tracks(index: Path, scenes: Mapping[str, Scene]) -> dict[Track, Described]:
    """What is true of each track of an index in the frame of its best crop; track ids are those of the truth."""
    with closing(sqlite3.connect(index)) as connection:
        found = connection.execute("SELECT stream, track_id, frame FROM tracks").fetchall()
    tracks = {}
    for stream, track_id, frame in found:
        scene = scenes[stream]
        actor = next(actor for actor in scene.actors if actor.track_id == track_id)
        tracks[stream, track_id] = describe_actor(actor, frame=frame, camera=scene.camera, light=scene.light.name)
    return tracks


def questions(tracks: Mapping[Track, Described], *, count: int, seed: int) -> list[Question]:
    """Return different questions that are true of at least one track, and of few, in the words of captions."""
    rng = np.random.default_rng([seed, 63])
    asked: dict[str, Question] = {}
    names = sorted(tracks)
    for _ in range(count * 40):
        caption = caption_of(tracks[names[rng.integers(len(names))]], rng=rng)
        right = rightly(caption, tracks)
        if len(right) <= MOST_RIGHT and "[UNK]" not in caption.text:
            asked.setdefault(caption.text, Question(caption.text, right))
        if len(asked) == count:
            break
    return list(asked.values())


def questions_in_other_words(tracks: Mapping[Track, Described], *, count: int, seed: int) -> list[Question]:
    """The same in wordings that no caption has: all but the nouns and colours is of `HELD_OUT`."""
    rng = np.random.default_rng([seed, 65])
    asked: dict[str, Question] = {}
    names = sorted(tracks)
    for _ in range(count * 40):
        caption = _in_other_words(tracks[names[rng.integers(len(names))]], rng=rng)
        right = rightly(caption, tracks)
        if len(right) <= MOST_RIGHT:
            asked.setdefault(caption.text, Question(caption.text, right))
        if len(asked) == count:
            break
    return list(asked.values())


def _in_other_words(what: Described, *, rng: np.random.Generator) -> Caption:
    def pick(choices: Sequence[str]) -> str:
        return choices[int(rng.integers(len(choices)))]

    def says(share: float) -> bool:
        return bool(rng.uniform() < share)

    garment = what.top if what.kind == "bicycle" else what.colour if what.kind == "person" else ""
    paint = "" if what.kind == "person" or (garment and says(0.5)) else what.colour
    garment = "" if paint else garment
    heading, light = what.heading if says(0.6) else "", what.light == "dusk" and says(0.3)
    bag, coat = what.bag and says(0.4), what.coat and says(0.3)
    parts = [pick(HELD_OUT["opening"])] if says(0.5) else []
    parts += [pick(COLOURS[paint])] if paint and says(0.5) else []
    is_before = len(parts) > 0 and bool(paint) and parts[-1] in COLOURS[paint]
    nouns = [noun for noun in NOUNS[what.kind] if not paint or what.kind != "bicycle" or noun in _MACHINES]
    parts.append(pick(nouns))
    parts += [pick(HELD_OUT["paint"]).format(pick(COLOURS[paint]))] if paint and not is_before else []
    parts += [pick(HELD_OUT["clothes"]).format(pick(COLOURS[garment]))] if garment else []
    parts += [pick(_fitting(HELD_OUT[heading], what.kind))] if heading else []
    parts += [pick(HELD_OUT["dusk"])] if light else []
    parts += [pick(HELD_OUT["bag"])] if bag else []
    parts += [pick(HELD_OUT["coat"])] if coat else []
    is_rider = what.kind == "bicycle"
    return Caption(
        " ".join(parts),
        kind=what.kind,
        colour=paint or ("" if is_rider else garment),
        heading=heading,
        light="dusk" if light else "",
        top=garment if is_rider else "",
        coat=coat,
        bag=bag,
    )


_MACHINES = ("bicycle", "bike", "cycle", "push bike")
"""What has the colour of a bicycle; that of a rider is the clothes'."""
_VERBS = {"walks": ("person",), "riding": ("bicycle",), "drives": ("car", "van", "truck", "bus")}


def _fitting(phrases: Sequence[str], kind: str) -> list[str]:
    """The phrases that fit a kind: nobody walks a bus."""
    return [one for one in phrases if all(verb not in one or kind in kinds for verb, kinds in _VERBS.items())]


def rightly(caption: Caption, tracks: Mapping[Track, Described]) -> frozenset[Track]:
    """The tracks that a caption is true of."""
    return frozenset(track for track, what in tracks.items() if caption.is_true_of(what))
