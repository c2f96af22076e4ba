"""Heat maps: where objects stood and went, by stream, label and hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.media import Batch, Objects, Stream
from sightline.media.heat import GRID_WH
from sightline.media.objects import Origin
from sightline.server.heat import HeatMaps
from sightline.server.history_series import TooMuch
from sightline.server.history_store import HistoryLimits, HistoryStore
from sightline.testing import make_frames
from tests.unit.server.test_history import MORNING, ManualClock

SIZE_WH = (960, 540)
"""Ten pixels are a cell."""
LABELS = ("person", "car")
HOUR = {"start_seconds": MORNING, "end_seconds": MORNING + 3_600}


class Heat:
    """Heat maps of a pipeline whose objects the test makes."""

    def __init__(self, path: Path, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.store = HistoryStore(path)
        self.maps = HeatMaps(self.store, clock=self.clock)
        self._frame = make_frames(1, size_wh=SIZE_WH)[0]
        self._streams = {"gate": Stream("gate")}

    def restart(self, stream: str) -> None:
        """Let the stream be one of a new run."""
        self._streams[stream] = Stream(stream)

    def see(
        self,
        seconds: float,
        *feet: tuple[float, float],
        stream: str = "gate",
        label: str = "person",
        tracks: tuple[int, ...] | None = None,
    ) -> None:
        """Objects whose feet are there (in cells, 0.5 is the middle of the first), on one frame."""
        source = self._streams.setdefault(stream, Stream(stream))
        frame = replace(self._frame, stream=source, pts_ns=round(seconds * 1e9))
        count = len(feet)
        objects = Objects.from_columns(
            frame=np.zeros(count),
            xyxy=np.array([[10 * x - 20, 10 * y - 60, 10 * x + 20, 10 * y] for x, y in feet]).reshape(count, 4),
            confidence=np.ones(count),
            class_id=np.full(count, LABELS.index(label)),
            source=Origin("detect-1", LABELS),
            track_id=np.arange(1, count + 1) if tracks is None else np.array(tracks),
        )
        self.maps.take(Batch((frame,), objects))

    def cells(
        self, kind: str = "feet", *, stream: str = "gate", labels: tuple[str, ...] = ()
    ) -> dict[tuple[int, int], float]:
        """Cells that are not 0 by (column, row)."""
        values = self.maps.map(stream, kind, labels=labels, **HOUR).values  # type: ignore[arg-type]
        return {(int(x), int(y)): float(values[y, x]) for y, x in zip(*np.nonzero(values), strict=True)}


@pytest.fixture
def heat(tmp_path: Path) -> Iterator[Heat]:
    heat = Heat(tmp_path / "test.history")
    yield heat
    heat.store.close()


def test_feet_stand_in_a_cell_for_as_long_as_they_are_seen(heat: Heat) -> None:
    for frame in range(50):
        heat.see(frame / 25, (10.5, 20.5), (40.5, 30.5))

    assert heat.cells() == {(10, 20): pytest.approx(2.0), (40, 30): pytest.approx(2.0)}


@pytest.mark.parametrize("fps", [5, 8, 25, 30, 60])
def test_the_time_does_not_depend_on_the_frame_rate(heat: Heat, fps: int) -> None:
    for frame in range(10 * fps):
        heat.see(frame / fps, (10.5, 20.5))

    assert heat.cells()[10, 20] == pytest.approx(10, abs=0.25)


def test_who_was_not_seen_for_long_was_not_there(heat: Heat) -> None:
    heat.see(0, (1.5, 1.5))
    heat.see(60, (1.5, 1.5))

    assert heat.cells() == {(1, 1): pytest.approx(1.2)}


def test_a_video_that_begins_again_counts_on(heat: Heat) -> None:
    for seconds in (0, 0.2, 0.4, 0, 0.2, 0.4):
        heat.see(seconds, (1.5, 1.5))

    assert heat.cells() == {(1, 1): pytest.approx(1.2)}


def test_a_track_counts_once_in_each_cell_on_its_way(heat: Heat) -> None:
    for step, x in enumerate([10, 14, 18, 14, 10, 10]):
        heat.see(0.2 * step, (x + 0.5, 20.5))

    assert heat.cells("paths") == {(x, 20): 1 for x in range(10, 19)}


def test_each_track_counts(heat: Heat) -> None:
    for track_id in (1, 2, 3):
        for step in range(5):
            heat.see(track_id + 0.2 * step, (10.5 + step, 20.5 + step), tracks=(track_id,))

    assert heat.cells("paths") == {(10 + step, 20 + step): 3 for step in range(5)}


def test_the_way_of_a_track_that_was_hidden_is_not_made_up(heat: Heat) -> None:
    heat.see(0, (10.5, 20.5))
    heat.see(5, (50.5, 20.5))

    assert heat.cells("paths") == {(10, 20): 1, (50, 20): 1}


def test_objects_without_a_track_have_feet_and_no_path(heat: Heat) -> None:
    heat.see(0, (10.5, 20.5), tracks=(-1,))

    assert heat.cells() == {(10, 20): pytest.approx(0.2)}
    assert heat.cells("paths") == {}


def test_the_same_number_in_a_new_run_is_another_track(heat: Heat) -> None:
    heat.see(0, (10.5, 20.5))
    heat.restart("gate")
    heat.see(0, (10.5, 20.5))

    assert heat.cells("paths") == {(10, 20): 2}


def test_feet_beyond_the_edge_are_on_the_edge(heat: Heat) -> None:
    width, height = GRID_WH
    heat.see(0, (-5, -5), (width + 5, height + 5), (float("nan"), 3.5))

    assert set(heat.cells()) == {(0, 0), (width - 1, height - 1), (0, 3)}


def test_labels_and_streams_are_apart(heat: Heat) -> None:
    heat.see(0, (1.5, 1.5), label="person")
    heat.see(0.2, (2.5, 2.5), label="car")
    heat.see(0, (3.5, 3.5), stream="yard")

    assert set(heat.cells()) == {(1, 1), (2, 2)}
    assert set(heat.cells(labels=("car",))) == {(2, 2)}
    assert set(heat.cells(labels=("p*", "bus"))) == {(1, 1)}
    assert heat.cells(labels=("bus",)) == {}
    assert set(heat.cells(stream="yard")) == {(3, 3)}
    assert heat.cells(stream="none") == {}
    assert heat.maps.map("gate", "feet", labels=("bus",), **HOUR).labels == ["car", "person"]


def test_hours_are_apart(heat: Heat) -> None:
    heat.maps.tick(MORNING * 1_000)
    heat.see(0, (1.5, 1.5))
    heat.maps.tick((MORNING + 3_600) * 1_000)
    heat.clock.now_ns = 3_600 * 10**9
    heat.see(1, (2.5, 2.5))

    def cells(begin: int, end: int) -> int:
        return int((heat.maps.map("gate", "feet", start_seconds=begin, end_seconds=end).values > 0).sum())

    assert cells(MORNING, MORNING + 3_600) == 1
    assert cells(MORNING + 3_600, MORNING + 7_200) == 1
    assert cells(MORNING + 1_800, MORNING + 7_200) == 2
    assert cells(MORNING + 7_200, MORNING + 9_000) == 0


def test_what_is_kept_survives_a_restart_and_grows(tmp_path: Path) -> None:
    first = Heat(tmp_path / "test.history")
    first.see(0, (1.5, 1.5))
    first.maps.tick(MORNING * 1_000, is_last=True)
    first.store.close()
    second = Heat(tmp_path / "test.history", first.clock)
    second.see(0, (1.5, 1.5))

    assert second.cells() == {(1, 1): pytest.approx(0.4)}
    assert second.cells("paths") == {(1, 1): 2}
    second.store.close()


def test_old_and_too_many_grids_go(tmp_path: Path) -> None:
    limits = HistoryLimits(grids_age_seconds=10 * 3_600, grids=6)
    store = HistoryStore(tmp_path / "test.history", limits=limits)
    rows = [("gate", hour * 3_600_000, label, b"f", b"p") for hour in range(20) for label in LABELS]
    store.add_grids(rows, merge=lambda one, other: one + other)

    def count() -> int:
        return len(store.grids("gate", start_ms=0, end_ms=10**12, limit=100))

    assert count() == 40
    store.prune(20 * 3_600_000)
    assert count() == 6
    store.prune(28 * 3_600_000)
    assert count() == 4
    store.close()


def test_more_than_can_be_read_is_refused(heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.server.heat.MOST_GRIDS", 1)
    heat.see(0, (1.5, 1.5), label="person")
    heat.see(0.2, (1.5, 1.5), label="car")

    with pytest.raises(TooMuch, match="more than 1 grids"):
        heat.cells()
