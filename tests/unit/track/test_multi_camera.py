"""People who walk through the views of several cameras keep one id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.multi_camera import EASY, HARD, SITES, SIZE_WH, World, decided, element_for, found_ids, run, score

from sightline import Pipeline
from sightline.config import InvalidConfiguration, load_description
from sightline.errors import ConfigurationError
from sightline.graph import Outputs
from sightline.graph.messages import Message
from sightline.media import Batch, Frame, Objects, Origin, Stream
from sightline.testing import make_frames, run_element
from sightline.testing.run import site_for
from sightline_plugins import MultiCamera
from sightline_plugins.sinks.records import frame_records

OVERLAP, GAP = "two views that overlap", "two views with a gap"


def world(name: str = OVERLAP, **options: Any) -> tuple[World, list[Batch]]:
    made = World(SITES[name], **{"seconds": 30, "fps": 5, **options})
    return made, made.batches()


@cache
def town(name: str, noise: tuple[float, float], *, seed: int, vectors: bool) -> tuple[World, list[Batch]]:
    """A world that is followed in several ways; its batches are values."""
    return world(name, noise=noise, seed=seed, vectors=vectors)


def cut(batches: Sequence[Batch], size: int) -> list[Batch]:
    """The same frames in batches of another size."""
    frames = [batch.select_frames([row]) for batch in batches for row in range(len(batch))]
    joined = []
    for first in range(0, len(frames), size):
        group = frames[first : first + size]
        tables = [one.objects.with_columns(frame=one.objects.frame + np.int32(row)) for row, one in enumerate(group)]
        joined.append(Batch(tuple(one.frames[0] for one in group), Objects.concat(tables)))
    return joined


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize(
    ("by", "noise", "least", "merges", "splits"),
    [
        ("plan", EASY, 0.94, 0, 1),
        ("appearance", EASY, 0.94, 1, 1),
        ("appearance", HARD, 0.6, 4, 25),
        ("both", EASY, 0.95, 0, 0),
        ("both", HARD, 0.95, 0, 0),
    ],
)
def test_people_are_known_again(
    name: str, by: str, noise: tuple[float, float], least: float, merges: int, splits: int
) -> None:
    for seed in range(2):
        made, batches = town(name, noise, seed=seed, vectors=by != "plan")
        found = score(run(element_for(SITES[name], by=by), batches)[0], made.truth)

        assert found.tracks > 20
        assert found.idf1 >= least
        assert found.merges <= merges
        assert found.splits <= splits


def test_matches_are_right_as_often_as_their_confidence_promises() -> None:
    found = []
    for seed in range(3):
        made, batches = world(noise=HARD, seed=seed, people=20)
        found += decided(run(element_for(SITES[OVERLAP], by="appearance"), batches)[0], made.truth)
    sure = [right for is_matched, confidence, right in found if is_matched and confidence > 0.9]
    unsure = [right for is_matched, confidence, right in found if is_matched and 0.3 < confidence <= 0.9]

    assert len(sure) > 50
    assert np.mean(sure) > 0.93
    assert len(unsure) > 10
    assert 0.3 < np.mean(unsure) <= np.mean(sure)


@pytest.mark.parametrize("by", ["plan", "appearance", "both"])
def test_results_do_not_depend_on_batch_size(by: str) -> None:
    _, batches = world(noise=HARD, seconds=12)
    element = element_for(SITES[OVERLAP], by=by)
    results = []
    for size in (1, 2, 3, 7):
        made = run(element, cut(batches, size))[0]
        results.append([record for batch in made for record in frame_records(batch)])

    assert all(result == results[0] for result in results)
    assert any(record.events for record in results[0])


def test_decisions_do_not_depend_on_which_stream_is_behind() -> None:
    _, batches = world(noise=HARD, seconds=20)
    gate, yard = ([batch.select_frames([row]) for batch in batches] for row in (0, 1))
    behind = 5
    shifted = [*yard[:1], *gate[:1], *gate[1:behind]]
    for index in range(behind, len(batches)):
        shifted += [gate[index], yard[index - behind + 1]]
    element = element_for(SITES[OVERLAP], by="both")
    both = [dict(_last_ids(run(element, order)[0])) for order in (batches, shifted)]

    assert set(both[1]) >= {key for key in both[0] if key[0] == "gate"} - set(_late(batches, seconds=3))
    assert all(both[0][key] == number for key, number in both[1].items() if key in both[0])


def _last_ids(batches: Sequence[Batch]) -> list[tuple[tuple[str, int], int]]:
    return [((stream, track), number) for stream, track, number in found_ids(batches) if number is not None]


def _late(batches: Sequence[Batch], *, seconds: float) -> set[tuple[str, int]]:
    """The tracks that began in the last seconds."""
    early = batches[: -round(seconds * 5)]
    return {one[:2] for one in found_ids(batches)} - {one[:2] for one in found_ids(early)}


def test_tracks_of_one_stream_at_the_same_time_never_share_an_id() -> None:
    _, batches = world(GAP, noise=HARD, people=25)
    for batch in run(element_for(SITES[GAP], by="appearance"), batches)[0]:
        ids = list(zip(batch.objects.frame.tolist(), batch.objects.extra["global_id"].tolist(), strict=True))
        known = [one for one in ids if one[1] is not None]
        assert len(set(known)) == len(known)


# ---- one track at a time ----

PLAN = {
    "gate": ((0, 0, 0, 0), (100, 0, 10, 0), (100, 100, 10, 10), (0, 100, 0, 10)),
    "yard": ((0, 0, 0, 0), (100, 0, 10, 0), (100, 100, 10, 10), (0, 100, 0, 10)),
}
"""Two cameras above the same floor: 10 pixels are one metre."""


def element(**options: Any) -> MultiCamera:
    return MultiCamera(**{"floor": PLAN, "pixels": True, **options})


def scene(
    *tracks: tuple[str, int, float, float, tuple[float, float]],
    fps: int = 10,
    label: Sequence[str] = ("person",),
    **extra: Any,
) -> list[Batch]:
    """Tracks that stand still: stream, track id, begin and end in seconds, place in metres."""
    streams = list(dict.fromkeys(track[0] for track in tracks))
    frames = {name: make_frames(1, stream=name, size_wh=(100, 120))[0] for name in streams}
    batches = []
    for index in range(round(fps * max(track[3] for track in tracks)) + 1):
        time = index / fps
        shown = [track for name in streams for track in tracks if track[0] == name and track[2] <= time <= track[3]]
        feet = np.array([track[4] for track in shown]).reshape(-1, 2) * 10
        objects = Objects.from_columns(
            frame=[streams.index(track[0]) for track in shown],
            xyxy=np.concatenate([feet - np.array([2, 8]), feet + np.array([2, 0])], axis=1),
            confidence=np.full(len(shown), 0.9),
            class_id=[track[1] % len(label) for track in shown],
            track_id=np.array([track[1] for track in shown]),
            source=Origin("detect-1", tuple(label)),
            extra={name: np.array([values[track[1]] for track in shown], np.float32) for name, values in extra.items()},
        )
        now = tuple(Frame(frame.stream, index, round(time * 1e9), frame.surface) for frame in frames.values())
        batches.append(Batch(now, objects))
    return batches


def ids(batches: Sequence[Batch], **options: Any) -> dict[tuple[str, int], int]:
    return dict(_last_ids(run_element(element(**options), batches)))


def test_overlapping_views_share_an_id_where_positions_agree() -> None:
    found = ids(scene(("gate", 1, 0, 3, (2, 2)), ("gate", 2, 0, 3, (8, 8)), ("yard", 1, 0, 3, (8, 8.2))))

    assert found == {("gate", 1): 1, ("gate", 2): 2, ("yard", 1): 2}


def test_an_object_cannot_be_where_it_did_not_have_the_time_to_go() -> None:
    tracks = scene(("gate", 1, 0, 2, (1, 1)), ("yard", 1, 2.5, 4, (9, 9)))

    assert ids(tracks)["yard", 1] == 2
    assert ids(tracks, max_speed=20)["yard", 1] == 2
    assert ids(scene(("gate", 1, 0, 2, (1, 1)), ("yard", 1, 2.5, 4, (1.5, 1.5))))["yard", 1] == 1


def test_an_object_that_was_away_for_too_long_is_forgotten() -> None:
    vectors = {1: [1.0, 0, 0, 0], 2: [0, 1.0, 0, 0]}
    tracks = scene(("gate", 1, 0, 2, (1, 1)), ("yard", 1, 12, 14, (1, 1)), embedding=vectors)

    assert ids(tracks, floor={})["yard", 1] == 1
    assert ids(tracks, floor={}, max_gap="5s")["yard", 1] == 2


def test_who_is_there_after_a_camera_came_back_keeps_the_id() -> None:
    """The camera was away for half a minute, and its tracker gives new ids; one person went, another one came."""
    one, two, three = np.eye(4)[:3] + 0.7
    vectors = {1: one, 2: two, 3: three, 4: one}
    tracks = scene(
        ("gate", 1, 0, 4, (1, 1)),
        ("gate", 2, 0, 4, (6, 6)),
        ("gate", 3, 34, 38, (1, 1)),
        ("gate", 4, 34, 38, (6, 6)),
        embedding={track: list(vector / np.linalg.norm(vector)) for track, vector in vectors.items()},
    )

    assert ids(tracks, floor={}) == {("gate", 1): 1, ("gate", 2): 2, ("gate", 3): 3, ("gate", 4): 1}


def test_a_track_that_comes_back_keeps_its_id() -> None:
    away = [
        batch if not 2 < batch.frames[0].pts_seconds < 7 else batch.with_objects(Objects.empty())
        for batch in scene(("gate", 1, 0, 12, (5, 5)), ("gate", 2, 0, 12, (1, 1)))
    ]
    assert ids(away) == {("gate", 1): 1, ("gate", 2): 2}
    assert ids(away, max_gap="1s") == {("gate", 1): 3, ("gate", 2): 4}


def test_objects_of_different_labels_are_different() -> None:
    tracks = scene(("gate", 1, 0, 2, (5, 5)), ("yard", 2, 0, 2, (5, 5)), label=("person", "car"))

    assert ids(tracks) == {("gate", 1): 1, ("yard", 2): 2}
    assert ids(tracks, classes=["car"]) == {("gate", 1): 1}


def test_an_id_is_revised_when_later_evidence_is_overwhelming() -> None:
    batches = scene(("gate", 1, 0, 8, (5, 5)), ("yard", 1, 0, 8, (5, 5)))
    moved = []
    for batch in batches:
        xyxy = batch.objects.xyxy.copy()
        xyxy[batch.objects.frame == 1, 0::2] += 4 * max(0.0, batch.frames[0].pts_seconds - 1)
        moved.append(batch.with_objects(batch.objects.with_columns(xyxy=xyxy)))
    made = run_element(element(), moved)
    events = [(event.rule, dict(event.data)) for batch in made for event in batch.events]

    assert [rule for rule, _ in events] == ["matched", "revised"]
    assert events[0][1]["global_id"] == events[1][1]["previous"] == 1
    assert events[1][1]["global_id"] == 2
    assert all(0 < float(data["confidence"]) <= 1 for _, data in events)
    assert [record["kind"] for batch in made for one in frame_records(batch) for record in one.events] == [
        "identity"
    ] * 2


def test_the_confidence_of_an_ambiguous_match_is_lower() -> None:
    near = scene(("gate", 1, 0, 2, (5, 5)), ("gate", 2, 0, 2, (5.4, 5)), ("yard", 1, 0, 2, (5.2, 5)))
    clear = scene(("gate", 1, 0, 2, (5, 5)), ("gate", 2, 0, 2, (9, 9)), ("yard", 1, 0, 2, (5.2, 5)))
    sure = []
    for batches in (near, clear):
        objects = run_element(element(), batches)[-1].objects
        sure.append(float(objects.extra["global_id_confidence"][objects.frame == 1][0]))

    assert sure[0] < 0.8 < 0.95 < sure[1]


def test_a_track_has_no_id_before_it_is_confirmed() -> None:
    made = run_element(element(confirm_after="1s"), scene(("gate", 1, 0, 2, (5, 5))))
    records = [record.objects[0].attributes for batch in made for record in frame_records(batch)]

    assert records[9] is None
    assert records[10] is not None
    assert records[10]["global_id"] == 1
    assert list(records[10]) == ["global_id", "global_id_confidence"]


def test_a_stream_that_ended_and_comes_again_begins_anew() -> None:
    operator = element().build(site_for("multi_camera-1", None))
    batches = scene(("gate", 1, 0, 2, (5, 5)))
    seen = []
    for _ in range(3):
        made = [operator.process(batch) for batch in batches]
        seen.append(_last_ids([one for one in made if isinstance(one, Batch)])[-1][1])
        operator.end_stream(Stream("gate"))

    assert seen == [1, 1, 1], "the same place and time: the same object, though the track is another one"


def test_memory_is_bounded() -> None:
    operator: Any = element(max_gap="5s").build(site_for("multi_camera-1", None))
    places = np.random.default_rng(0).uniform(1, 9, (60, 2))
    tracks = [
        ("gate", number + 1, 2.0 * number, 2.0 * number + 1.5, tuple(place)) for number, place in enumerate(places)
    ]
    most = 0
    for batch in scene(*tracks):
        operator.process(batch)
        most = max(most, len(operator._identities), operator._identities.tracks, len(operator._identities._known))

    assert most <= 8


def test_times_of_day_are_used_while_all_frames_have_one() -> None:
    batches = scene(("gate", 1, 0, 3, (5, 5)), ("yard", 1, 0, 3, (5, 5)))
    later = [
        replace(
            batch,
            frames=tuple(
                replace(frame, capture_ns=10**18 + frame.pts_ns, pts_ns=frame.pts_ns + row * 10**12)
                for row, frame in enumerate(batch.frames)
            ),
        )
        for batch in batches
    ]
    assert ids(later) == {("gate", 1): 1, ("yard", 1): 1}

    messages: list[Message] = []
    mixed = [replace(batch, frames=(batch.frames[0], replace(batch.frames[1], capture_ns=None))) for batch in later]
    run_element(element(), mixed, messages=messages)
    assert ["no capture time" in message.text for message in messages] == [True]


# ---- mistakes ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": {"gate": [[0, 0, 0, 0]] * 3}}, "floor.gate: .*at least 4 are needed"),
        ({"floor": {"gate": [[0.1, 0.1, 0, 0], [0.2, 0.2, 1, 1], [0.3, 0.3, 2, 2], [0.4, 0.4, 3, 3]]}}, "on one line"),
        ({"floor": {"gate": [[7, 0.1, 0, 0], *[[0.2, 0.2, 1, 1]] * 3]}}, r"floor.gate.0: \[7, 0.1\] is outside the im"),
        ({"min_probability": 1}, "min_probability: "),
        ({"max_speed": 0}, "max_speed: "),
        ({"flor": {}}, "flor: .*floor"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MultiCamera(**options)


def problems(folder: Path, *steps: str) -> str:
    text = "sources: {gate: {pattern: bars}, yard: {pattern: bars}}\npipeline:\n" + "".join(
        f"- {one}\n" for one in steps
    )
    (folder / "p.yaml").write_text(text)
    (folder / "boxes.txt").write_text("1,-1,4,10,12,12,0.9,-1,-1,-1\n")
    (folder / "gate.jsonl").write_text('{"stream":"gate","frame":0,"objects":[]}\n')
    with pytest.raises(InvalidConfiguration) as caught:
        load_description(folder / "p.yaml", outputs=Outputs(folder))
    return str(caught.value)


BOXES = "replay: {path: boxes.txt, format: mot, ids: true}"
SQUARE = "[[0.1, 0.9, 0, 0], [0.9, 0.9, 6, 0], [0.7, 0.3, 6, 14], [0.3, 0.3, 0, 14]]"


def test_a_step_without_tracks_is_refused(tmp_path: Path) -> None:
    text = problems(
        tmp_path,
        "replay: {path: boxes.txt, format: mot}",
        f"multi_camera: {{floor: {{gate: {SQUARE}, yard: {SQUARE}}}}}",
    )
    assert "multi_camera needs tracks, and no step before it gives any" in text


def test_neither_a_floor_plan_nor_appearance_is_refused(tmp_path: Path) -> None:
    text = problems(tmp_path, BOXES, "multi_camera")
    assert "there is nothing to match the streams gate, yard by: put embed (with on) before this step" in text
    assert "floor: {gate: [[x, y, X, Y], ...]}" in text


def test_a_stream_with_neither_is_named(tmp_path: Path) -> None:
    text = problems(tmp_path, BOXES, f"multi_camera: {{floor: {{gate: {SQUARE}}}}}")
    assert "there is nothing to match the stream yard by" in text


def test_a_stream_of_the_plan_that_does_not_exist_is_named(tmp_path: Path) -> None:
    text = problems(tmp_path, BOXES, f"multi_camera: {{floor: {{gate: {SQUARE}, yrad: {SQUARE}, yard: {SQUARE}}}}}")
    assert "there is no stream 'yrad' that this step works on" in text
    assert "yard" in text


# ---- a whole pipeline ----


def test_replayed_boxes_of_two_streams_through_a_pipeline(tmp_path: Path) -> None:
    made, batches = world(seconds=12, people=6)
    for row, name in enumerate(SITES[OVERLAP].cameras):
        records = [frame_records(batch, embeddings=True)[row] for batch in batches]
        lines = [
            {
                "stream": name,
                "frame": record.frame,
                "objects": [
                    {
                        "label": one.label,
                        "class_id": one.class_id,
                        "confidence": one.confidence,
                        "box": one.box,
                        "track_id": one.track_id,
                        "embedding": one.embedding,
                    }
                    for one in record.objects
                ],
            }
            for record in records
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"pattern": "bars", "size": list(SIZE_WH), "frames": len(batches), "fps": made.fps}
    pipeline = Pipeline(
        sources=dict.fromkeys(SITES[OVERLAP].cameras, source),
        steps=[
            {"replay": {"path": str(tmp_path / "{stream}.jsonl"), "ids": True}},
            {"multi_camera": {"floor": SITES[OVERLAP].plan()}},
            {"jsonl": {"path": str(tmp_path / "out-{stream}.jsonl")}},
        ],
    )
    pipeline.run()

    seen: dict[int, set[int]] = {}
    for name in SITES[OVERLAP].cameras:
        for line in (tmp_path / f"out-{name}.jsonl").read_text().splitlines():
            for one in json.loads(line).get("objects", ()):
                if "global_id" in one.get("attributes", {}):
                    person = made.truth[name, one["track_id"]]
                    seen.setdefault(one["attributes"]["global_id"], set()).add(person)
                    assert 0.5 <= one["attributes"]["global_id_confidence"] <= 1
    assert all(len(people) == 1 for people in seen.values())
    assert len(seen) == 6
