"""Options of the named trackers: each takes its own, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.track.algorithms import TRACKERS
from sightline_plugins.track.track import Track


def test_the_trackers_that_people_know_are_installed() -> None:
    assert {"adaptive", "botsort", "bytetrack", "cbiou", "deepocsort", "iou", "ocsort", "sort"} <= set(TRACKERS)


@pytest.mark.parametrize("algorithm", ["botsort", "bytetrack", "cbiou", "deepocsort", "iou", "ocsort", "sort"])
def test_a_step_holds_the_options_of_its_tracker(algorithm: str) -> None:
    step = Track.model_validate({"algorithm": algorithm, "max_lost": "1.5s", "min_hits": 4})

    assert step.options == TRACKERS[algorithm].model_validate({"max_lost": 1.5, "min_hits": 4})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algorithm": "srot"}, "algorithm: there is no tracker 'srot'; did you mean 'sort'?"),
        ({"algorithm": "sort", "buffer": 0.3}, "buffer: is an option of cbiou, not of sort"),
        ({"buffer": 0.3}, "buffer: is an option of cbiou, not of adaptive"),
        ({"algorithm": "ocsort", "direction_frame": 2}, "direction_frame: there is no such option; did you mean"),
        ({"algorithm": "sort", "iou_threshold": 0}, "iou_threshold: must be more than 0"),
        ({"algorithm": "iou", "min_hits": 0}, "min_hits: must be at least 1"),
        ({"algorithm": "bytetrack", "low_confidence": 0.7}, "must not be above high_confidence, got 0.7 and 0.6"),
    ],
)
def test_a_wrong_option_is_one_clear_error(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Track(**options)

    assert said in str(raised.value)
    assert str(raised.value).count("\n") == 0


def test_only_the_options_of_the_tracker_are_offered() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Track(algorithm="sort", foo=1)

    assert str(raised.value).endswith(
        "Allowed: algorithm, untracked, class_votes, tracker_confidence, follow, past_frames, max_lost, min_hits, "
        "new_track_threshold, iou_threshold, id, streams, on_error"
    )


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Track(algorithm="sort", buffer=0.3, min_hits=0)

    assert {line.split(":")[1].strip() for line in str(raised.value).splitlines()} == {"buffer", "min_hits"}


def test_the_schema_says_which_tracker_an_option_belongs_to() -> None:
    described = {key: option["description"] for key, option in Track.model_json_schema()["properties"].items()}

    assert described["buffer"].startswith("`cbiou`: ")
    assert "0.7 (`botsort`, `bytetrack`, `cbiou`), 0.25 (`sort`)" in described["new_track_threshold"]
    assert "0s (`iou`)" in described["max_lost"]
