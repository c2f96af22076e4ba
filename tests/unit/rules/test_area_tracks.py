"""The table over areas and tracks, against a dictionary of pairs."""

from __future__ import annotations

import json

import numpy as np

from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Mask

Pairs = dict[tuple[int, int], float]


def table() -> AreaTracks:
    return AreaTracks({"value": -1.0, "place": np.zeros(2)})


def put(tracks: AreaTracks, pairs: Pairs, *, now_ns: int = 0) -> Mask:
    area, track_id = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    rows, is_new = tracks.rows(area, track_id, now_ns=now_ns)
    assert (tracks["value"][rows[is_new]] == -1).all(), "a new row holds what the table was given for it"
    tracks["value"][rows], tracks["place"][rows, 0] = list(pairs.values()), list(pairs.values())
    return is_new


def held(tracks: AreaTracks) -> Pairs:
    """What is in the table, in the order of its rows; both columns have to agree."""
    rows = [row for row, area in enumerate(tracks.area.tolist()) if area >= 0]
    assert len(rows) == len(tracks)
    assert tracks["place"][rows, 0].tolist() == tracks["value"][rows].tolist()
    pairs = [(int(tracks.area[row]), int(tracks.track_id[row])) for row in rows]
    assert tracks.known(*(np.array(column, np.int64) for column in zip(*pairs, strict=True))).tolist() == rows
    return {pair: float(tracks["value"][row]) for pair, row in zip(pairs, rows, strict=True)}


def test_pairs_come_and_go_as_in_a_dictionary_and_keep_their_order() -> None:
    random, tracks = np.random.default_rng(1), table()
    plain: Pairs = {}
    for step in range(400):
        seen = {(int(area), int(track)): float(step) for area, track in random.integers(0, 60, (5, 2)) * (1, 2**50)}
        is_new = put(tracks, seen, now_ns=step)
        assert is_new.tolist() == [pair not in plain for pair in seen]
        plain |= seen
        gone = tracks.seen_ns < step - 40
        tracks.forget(gone)
        plain = {pair: value for pair, value in plain.items() if value >= step - 40}
        assert held(tracks) == plain
    assert list(held(tracks)) == list(plain)
    assert len(tracks.area) < 3 * len(plain), "rows of pairs that were forgotten are dropped"


def test_areas_get_other_numbers_and_those_without_one_are_forgotten() -> None:
    tracks = table()
    put(tracks, {(0, 7): 1.0, (1, 7): 2.0, (2, 8): 3.0})

    tracks.renumber({2: 0, 0: 5, 9: 1})

    assert held(tracks) == {(5, 7): 1.0, (0, 8): 3.0}


def test_a_track_gets_another_id_in_one_area() -> None:
    tracks = table()
    put(tracks, {(0, 7): 1.0, (1, 7): 2.0})

    tracks.rename(0, 9)

    assert held(tracks) == {(0, 9): 1.0, (1, 7): 2.0}


def test_a_saved_table_goes_on_with_the_areas_that_are_still_there() -> None:
    tracks, other = table(), table()
    put(tracks, {(0, 7): 1.0, (1, 7): 2.0, (2, 8): 3.0, (2, 9): 4.0}, now_ns=2**62)
    tracks.forget(tracks.track_id == 9)

    other.restore(json.loads(json.dumps(tracks.save())), {2: 0, 1: 1})

    assert held(other) == {(1, 7): 2.0, (0, 8): 3.0}
    assert other.seen_ns.tolist() == [2**62, 2**62]
    different = AreaTracks({"other": 0})
    different.restore(tracks.save(), {0: 0})
    assert len(different) == 0
