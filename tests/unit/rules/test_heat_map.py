"""`heat_map`: seconds and tracks by cell, whatever the frame rate; drawn, written to files, and fading."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.rules.scenes import path, scene
from tests.unit.rules.walkers import SIZE_WH, Walker, sampled, walker, wander

from sightline.devices import Device
from sightline.graph import CheckContext, Outputs, Site
from sightline.graph.messages import Message, MessageKind
from sightline.media import Batch, HeatLayer, Objects, Origin
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins import HeatMaps
from sightline_plugins.opencv import cv2
from sightline_plugins.rules.heat_files import HeatMapOperator
from sightline_plugins.rules.heat_map import StreamHeat

Floats = npt.NDArray[np.float64]
GRID = (16, 9)


def heat(
    batches: Sequence[Batch], *, grid: tuple[int, int] = GRID, outputs: Path | None = None, **options: Any
) -> Floats:
    """The map of these options at the end."""
    return maps(batches, outputs=outputs, map={"grid": grid, **options}).values("map")


def maps(batches: Sequence[Batch], *, outputs: Path | None = None, **options: Any) -> StreamHeat:
    """The state of the maps of one stream at the end."""
    operator = HeatMaps.model_validate(options).build(Site(device=Device(), outputs=Outputs(outputs)))
    for batch in batches:
        operator.process(batch)
    state = operator._latest[batches[0].frames[0].stream.name]
    assert isinstance(state, StreamHeat)
    return state


def truth(walkers: Sequence[Walker], *, grid: tuple[int, int] = GRID) -> Floats:
    """The seconds in each cell, of thousandths of a second."""
    grid_wh, found = np.array(grid), np.zeros(grid[::-1])
    for one in walkers:
        times = np.arange(one.seconds[0], one.seconds[-1], 0.001)
        cells = (replace(one, hidden=()).at(times) / SIZE_WH * grid_wh).astype(int)
        np.add.at(found, (cells[:, 1], cells[:, 0]), 0.001)
    return found


@settings(max_examples=12)
@given(
    seed=st.integers(0, 999),
    fps=st.sampled_from([1.0, 2.0, 5.0, 12.5, 25.0, 60.0]),
    uneven=st.floats(0, 0.9),
    longest_hidden=st.sampled_from([0.0, 0.8]),
)
def test_seconds_are_the_true_ones_at_every_frame_rate(
    seed: int, fps: float, uneven: float, longest_hidden: float
) -> None:
    walkers = wander(seed, shapes=[], interval=1.0, longest_hidden=longest_hidden, count=4, seconds=30)
    expected = truth(walkers)

    found = heat(sampled(walkers, fps=fps, uneven=uneven, seed=seed))

    interval = (1 + uneven) / fps
    assert found.sum() == pytest.approx(expected.sum(), abs=len(walkers) * (interval + longest_hidden))
    turns = sum(len(one.seconds) for one in walkers)
    assert np.abs(found - expected).sum() <= 2 * len(walkers) * (interval + longest_hidden) + turns * interval


@pytest.mark.parametrize("fps", [2, 7, 25])
def test_a_straight_way_gives_each_of_its_cells_the_exact_time_and_one_track(fps: int) -> None:
    way = walker((0, 100, 200), (8, 1100, 200))
    batches = sampled([way], fps=fps, seconds=8)
    last = batches[-1].frames[-1].pts_ns / 1e9

    seconds, tracks = heat(batches), heat(batches, measure="paths")

    assert seconds.sum() == pytest.approx(last)
    np.testing.assert_allclose(seconds[2, 2:12], 80 / 125, atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(tracks[2]), range(1, int((100 + last * 125) // 80) + 1))
    assert tracks.max() == 1
    assert tracks.sum() == tracks[2].sum()


def test_who_comes_back_counts_once_in_paths_and_dwell_is_the_mean_of_the_tracks() -> None:
    passing = walker((0, 100, 200), (4, 1100, 200), (8, 100, 200))
    standing = walker((0, 600, 200), (8, 600, 200), track_id=2)
    batches = sampled([passing, standing], fps=25)

    state = maps(batches, paths={"measure": "paths", "grid": GRID}, dwell={"measure": "dwell", "grid": GRID})

    assert state.values("paths")[2, 7] == 2
    assert state.values("paths")[2, 3] == 1
    assert state.values("dwell")[2, 3] == pytest.approx(2 * 80 / 250, abs=0.01)
    assert state.values("dwell")[2, 7] == pytest.approx((8 + 2 * 80 / 250) / 2, abs=0.1)
    assert state.totals()["paths"] == {"seconds": pytest.approx(16, abs=0.1), "tracks": 2}


def test_gaps_of_up_to_two_seconds_are_bridged_and_longer_ones_are_not() -> None:
    way = walker((0, 100, 200), (20, 1100, 200), hidden=[(2, 3.9), (10, 14)])

    found = heat(sampled([way], fps=25))

    assert found.sum() == pytest.approx(16, abs=0.1)
    assert found[2, 3] == pytest.approx(80 / 50, abs=1e-6)
    assert found[2, 9] == 0


def test_only_the_cells_of_the_polygon_the_classes_and_the_schedule_count() -> None:
    walkers = [
        walker((0, 100, 200), (8, 1100, 200)),
        replace(walker((0, 300, 600), (8, 300, 600), track_id=2), label="car"),
    ]
    batches = sampled(walkers, fps=25)

    left = heat(batches, polygon=[[0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]])
    cars = heat(batches, classes=["car"])
    never = heat(
        [replace(batch, frames=tuple(replace(frame, capture_ns=0) for frame in batch.frames)) for batch in batches],
        schedule="mon 08:00-09:00",
    )

    assert left[:, 8:].sum() == left[4:].sum() == never.sum() == 0
    assert left.sum() == pytest.approx(540 / 125, abs=0.05)
    assert cars.sum() == cars[7, 3] == pytest.approx(8, abs=0.1)


def test_what_was_added_counts_half_after_the_half_life_at_every_frame_rate() -> None:
    way = [walker((0, 600, 200), (10, 600, 200))]

    for fps in (2, 25):
        now, later = (heat(sampled(way, fps=fps, seconds=at), half_life="5s").sum() for at in (10, 20))
        assert now == pytest.approx(5 / np.log(2) * (1 - 0.25), rel=0.06)
        assert later == pytest.approx(now / 4, rel=0.12)


def test_five_frames_a_second_of_the_sample_world_give_what_25_give() -> None:
    rows = np.loadtxt("sample_videos/street.mot.txt", delimiter=",")
    frames = make_frames(int(rows[:, 0].max()), size_wh=(640, 360))
    batches = [
        batch.with_objects(
            Objects.from_columns(
                frame=np.zeros(len(own)),
                xyxy=np.concatenate([own[:, 2:4], own[:, 2:4] + own[:, 4:6]], axis=1),
                confidence=np.ones(len(own)),
                class_id=np.zeros(len(own)),
                track_id=own[:, 1],
                source=Origin("truth", ("object",)),
            )
        )
        for batch in make_batches(frames)
        for own in [rows[rows[:, 0] == batch.frames[0].index + 1]]
    ]
    expected = np.zeros((54, 96))
    feet = np.stack([rows[:, 2] + rows[:, 4] / 2, rows[:, 3] + rows[:, 5]], axis=1) / (640, 360)
    cells = np.clip((feet * (96, 54)).astype(int), 0, (95, 53))
    np.add.at(expected, (cells[:, 1], cells[:, 0]), 1 / 25)

    every, fifth = (heat(chosen, grid=(96, 54)) for chosen in (batches, batches[::5]))

    coarse = [one.reshape(9, 6, 12, 8).sum((1, 3)).ravel() for one in (every, fifth, expected)]
    assert every.sum() == pytest.approx(expected.sum(), rel=0.02)
    assert fifth.sum() == pytest.approx(every.sum(), rel=0.03)
    assert np.corrcoef(coarse)[0].min() > 0.995
    ways = [heat(chosen, grid=(96, 54), measure="paths") for chosen in (batches, batches[::5])]
    assert ways[0].max() <= len(set(rows[:, 1].tolist()))
    assert np.abs(ways[0] - ways[1]).sum() < 0.12 * ways[0].sum()


def test_what_is_drawn_is_made_once_a_second_and_is_hot_where_somebody_stood() -> None:
    batches = sampled([walker((0, 600, 200), (5, 600, 200))], fps=25, seconds=5, size=10)
    element = HeatMaps.model_validate({"map": {"grid": GRID}, "opacity": 0.5})

    layers = [own for batch in run_element(element, batches) for own in batch.columns.graphics]

    assert {len(own) for own in layers} == {1}
    drawn = [layer for (layer,) in layers if isinstance(layer, HeatLayer)]
    assert len({id(layer.levels) for layer in drawn}) == 5
    assert drawn[0].levels.max() == 0
    assert np.argwhere(drawn[-1].levels == 255).tolist() == [[2, 7]]
    hidden = HeatMaps.model_validate({"map": {}, "opacity": 0})
    assert not any(batch.columns.graphics for batch in run_element(hidden, batches))


def test_files_are_written_at_the_interval_and_at_the_end(tmp_path: Path) -> None:
    batches = sampled([walker((0, 600, 200), (5, 600, 200))], fps=10, seconds=5, size=1)
    element = HeatMaps.model_validate(
        {"path": "{stream}-{rule}.npy", "image": "{stream}-{rule}.png", "interval": "2s", "map": {"grid": GRID}}
    )
    operator = element.build(Site(device=Device(), outputs=Outputs(tmp_path)))
    assert isinstance(operator, HeatMapOperator)
    sums = []
    for batch in batches:
        operator.process(batch)
        if (file := tmp_path / "cam-map.npy").exists():
            sums.append(round(float(np.load(file).sum()), 3))
    operator.close()

    array = np.load(tmp_path / "cam-map.npy")
    assert sorted(set(sums)) == [2.0, 4.0]
    assert (array.shape, array.dtype.str) == ((9, 16), "<f4")
    assert array[2, 7] == pytest.approx(4.9)
    image = cv2.imread(str(tmp_path / "cam-map.png"))
    assert image is not None
    assert image.shape == (720, 1280, 3)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cam-map.npy", "cam-map.png"]


def test_a_file_that_cannot_be_written_stops_nothing_and_is_reported(tmp_path: Path) -> None:
    foreign = tmp_path / "cam.npy"
    foreign.write_text("of somebody else")
    batches = sampled([walker((0, 600, 200), (5, 600, 200))], fps=10, seconds=5, size=1)
    messages: list[Message] = []

    element = HeatMaps.model_validate({"path": "{stream}.npy", "interval": "1s", "map": {"grid": GRID}})
    made = run_element(element, batches, outputs=tmp_path, messages=messages)

    assert len(made) == len(batches)
    assert [message.kind for message in messages] == [MessageKind.SINK_DEGRADED]
    assert "was not written by Sightline" in messages[0].text
    assert foreign.read_text() == "of somebody else"
    assert [one.name for one in tmp_path.iterdir()] == ["cam.npy"]


def test_names_that_are_one_in_a_path_are_reported(tmp_path: Path) -> None:
    context = CheckContext(device=Device(), streams=("one",), outputs=Outputs(tmp_path))
    element = HeatMaps.model_validate({"path": "{stream}-{rule}.npy", "a b": {}, "a_b": {}})

    (problem,) = element.check(context)

    assert problem.key == ("a_b",)
    assert "the maps 'a b' and 'a_b' would write the same file" in problem.message


def test_csv_holds_the_same_numbers(tmp_path: Path) -> None:
    batches = sampled([walker((0, 600, 200), (3, 900, 500))], fps=10, seconds=3)
    element = HeatMaps.model_validate({"path": "{stream}.csv", "map": {"grid": GRID}})

    run_element(element, batches, outputs=tmp_path)

    table = np.loadtxt(tmp_path / "cam.csv", delimiter=",")
    np.testing.assert_allclose(table, heat(batches), atol=0.0006)


def test_a_state_goes_through_json_and_is_small() -> None:
    walkers = wander(3, shapes=[], interval=1.0, count=8, seconds=30)
    batches = sampled(walkers, fps=5)
    state = maps(batches, ways={"measure": "paths"}, map={"half_life": "10s"})

    text = json.dumps(state.save())
    again = HeatMaps.model_validate({"ways": {"measure": "paths"}, "map": {"half_life": "10s"}}).watch(None)
    again.restore(json.loads(text))

    assert isinstance(again, StreamHeat)
    for name in ("ways", "map"):
        np.testing.assert_array_equal(again.values(name), state.values(name))
    assert len(text) < 100_000


@pytest.mark.parametrize("damage", [{"time": "AAAA"}, {"time": 5}, {"passages": {}}, {"seconds": "many"}])
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    state = maps(scene({1: path([(50, 50)] * 4)}, frames=4), map={})
    saved = json.loads(json.dumps(state.save()))
    saved["tally"]["map"].update(damage)

    with pytest.raises((KeyError, TypeError, ValueError)):
        HeatMaps.model_validate({"map": {}}).watch(None).restore(saved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no map is given: write NAME: {classes: [person]}"),
        ({"standing": True}, "is neither a map"),
        ({"standing": {"grid": [0, 9]}}, "greater than or equal to 1"),
        ({"standing": {"grid": [16, 900]}}, "less than or equal to 256"),
        ({"standing": {"measure": "hands"}}, "'feet', 'dwell' or 'paths'"),
        ({"standing": {"half_life": "1ms"}}, "half_life"),
        ({"standing": {"polygon": [[0, 0], [1, 1]]}}, "polygon"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        HeatMaps.model_validate(options)

    assert message in str(error.value)


def test_paths_of_files_are_checked(tmp_path: Path) -> None:
    context = CheckContext(device=Device(), streams=("one", "two"), outputs=Outputs(tmp_path))
    element = HeatMaps.model_validate({"path": "out.txt", "image": "{stream}-{track}.png", "one": {}, "other": {}})

    problems = [(problem.key, problem.message) for problem in element.check(context)]

    assert [key for key, _ in problems] == [("path",), ("path",), ("path",), ("image",), ("image",)]
    assert "must end in .npy or .csv" in problems[0][1]
    assert "2 maps would write the same file 'out.txt': put {rule} into the path" in problems[1][1]
    assert "2 streams would write the same file" in problems[2][1]
    assert "put {rule}" in problems[3][1]
    assert "{track} stands for nothing here" in problems[4][1]
