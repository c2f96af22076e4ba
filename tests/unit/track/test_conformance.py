from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sightline.testing.tracker_conformance import TrackerConformance
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.track import Track


class TestAdaptive(TrackerConformance):
    options = AdaptiveOptions()


class TestAdaptiveThatConfirmsAtOnce(TrackerConformance):
    options = AdaptiveOptions(min_hits=1)


def test_the_options_of_a_step_are_its_tracker_s() -> None:
    assert Track.model_validate({"max_lost": "1.5s", "min_hits": 3}).options == AdaptiveOptions.model_validate(
        {"max_lost": 1.5, "min_hits": 3}
    )


def test_steps_that_track_alike_are_equal_however_they_are_written() -> None:
    assert Track.model_validate({"max_lost": "1.5s"}) == Track.model_validate(
        {"max_lost": 1.5, "algorithm": "adaptive"}
    )
    assert Track() == Track.model_validate({"max_lost": "2s"})
    assert Track() != Track.model_validate({"max_lost": "1s"})


@pytest.mark.parametrize(
    ("options", "place"),
    [({"max_lst": "1s"}, ("max_lst",)), ({"min_hits": 0}, ("min_hits",)), ({"algorithm": "srot"}, ("algorithm",))],
)
def test_mistakes_in_the_tracker_s_options_are_at_their_keys(options: dict[str, Any], place: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        Track.model_validate(options)

    assert [error["loc"] for error in raised.value.errors()] == [place]


def test_the_schema_of_a_step_holds_the_tracker_s_options() -> None:
    schema = Track.model_json_schema()

    assert {"algorithm", "untracked", "max_lost", "high_threshold", "new_track_threshold"} <= set(schema["properties"])
    assert {"adaptive", "bytetrack", "sort"} <= set(schema["properties"]["algorithm"]["enum"])
    assert schema["additionalProperties"] is False
