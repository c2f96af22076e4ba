"""The file of an index: whose it is, what is kept of it, and that what is forgotten is gone from the bytes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sightline.errors import ConfigurationError, OutputError
from sightline_plugins.search.database import EncoderMark, IndexFile, TrackEntry, forget, open_index, quantised
from sightline_plugins.search.searching import TrackSearch

MARK = EncoderMark("models/search", "d" * 32, 8)


def entry(number: int, **changes: object) -> TrackEntry:
    vector = np.full(8, number + 1, np.float32)
    values: dict[str, object] = {
        "pipeline": "p", "stream": "gate", "track_id": number, "label": "car", "confidence": 0.9, "frame": 3,
        "start_pts_ns": 0, "end_pts_ns": 10, "start_ns": number * 100, "end_ns": number * 100 + 50,
        "xyxy": (0.0, 0.0, 9.0, 9.0), "direction": None, "attributes": {"plate": f"SECRET{number}"},
        "added_ns": number * 100,
        "vector": vector / np.linalg.norm(vector), "image": b"\xff" * 500,
    }  # fmt: skip
    return TrackEntry(**{**values, **changes})  # type: ignore[arg-type]


def ids(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT track_id FROM tracks ORDER BY id")]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    file = IndexFile(tmp_path / "a.db", mark=MARK)
    file.put((None, entry(number)) for number in range(20))
    file.close()
    return tmp_path / "a.db"


def test_a_vector_comes_back_to_a_hundredth() -> None:
    vector = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    codes, factor = quantised(vector)
    assert codes.astype(np.float32) * factor == pytest.approx(vector, abs=0.51 * factor)


def test_a_track_is_written_over_its_own_row(filled: Path) -> None:
    file = IndexFile(filled, mark=MARK)
    (row,) = file.put([(None, entry(50))])
    assert file.put([(row, entry(51))]) == [row]
    file.close()
    assert ids(filled) == [*range(20), 51]


def test_the_oldest_go_by_age_by_number_and_by_size(filled: Path) -> None:
    file = IndexFile(filled, mark=MARK)
    assert file.retain(before_ns=500, size_bytes=None, count=None) == 5
    assert file.retain(before_ns=None, size_bytes=None, count=10) == 5
    file.put((None, entry(number, image=b"\x00" * 50_000)) for number in range(100, 140))
    assert file.retain(before_ns=None, size_bytes=400_000, count=None) > 10
    file.close()
    assert ids(filled)[-1] == 139
    assert filled.stat().st_size < 700_000


def test_another_encoder_and_another_kind_of_database_are_refused(filled: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"of another encoder \(models/search\)"):
        IndexFile(filled, mark=EncoderMark("other", "e" * 32, 8))
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        connection.execute("CREATE TABLE runs (run INTEGER)")
    with pytest.raises(OutputError, match="no index of tracks"):
        IndexFile(tmp_path / "b.db", mark=MARK)
    with pytest.raises(ConfigurationError, match="there is no index"):
        open_index(tmp_path / "c.db")


def test_what_is_forgotten_is_gone_from_the_bytes_of_the_file(filled: Path) -> None:
    assert forget(filled, where="track_id = ?", values=(7,)) == 1
    assert 7 not in ids(filled)
    content = b"".join(path.read_bytes() for path in filled.parent.iterdir())
    assert b"SECRET7" not in content
    assert b"SECRET8" in content


def test_an_index_is_searched_by_filters_without_an_encoder(filled: Path) -> None:
    with TrackSearch(filled) as index:
        found = index.search(streams=["gate"], labels=["car"], count=3)
        assert (found.fitting, [track.track_id for track in found.tracks]) == (20, [19, 18, 17])
        assert found.tracks[0].attributes == {"plate": "SECRET19"}


@pytest.mark.parametrize("loads", [False, True])
def test_times_in_words_choose_tracks_and_leave_those_without_a_time_out(loads: bool, tmp_path: Path) -> None:
    noon_ns, hour_ns = int(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()) * 10**9, 3_600 * 10**9
    starts = [noon_ns + number * hour_ns for number in range(24)]
    file = IndexFile(tmp_path / "a.db", mark=MARK)
    file.put((None, entry(number, start_ns=start, end_ns=start + 10**9)) for number, start in enumerate(starts))
    file.put([(None, entry(99, start_ns=None, end_ns=None))])
    file.close()
    now, found = datetime(2026, 11, 26, 10, 30, tzinfo=UTC), {}
    with TrackSearch(tmp_path / "a.db") as index:
        assert not loads or index.load() == 25
        for text in ("yesterday evening", "at night", "in the last 3 hours"):
            result = index.search(text, now=now, zone=UTC, count=50)
            assert result.without_time == 1
            found[text] = sorted(track.track_id for track in result.tracks)
    assert found == {
        "yesterday evening": [*range(6, 12)],
        "at night": [*range(10, 18)],
        "in the last 3 hours": [20, 21, 22],
    }
