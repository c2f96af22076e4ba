"""`drift` as a step: which frames it samples, what it adds to them, and its files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sightline.errors import ConfigurationError
from sightline.graph.operator import MeasuresDrift, ResetsCounts
from sightline.graph.outputs import Outputs
from sightline.media import Batch, Event, Frame, Part, PixelFormat, Stream, Surface
from sightline.media.frame import NANOSECONDS
from sightline.testing import make_batches, run_element
from sightline.testing.run import site_for
from sightline_plugins import Drift
from sightline_plugins.drift.operator import DriftOperator
from tests.unit.drift.series import Scene, second

SIZE_WH = (64, 48)
QUICK = {"learn": "40s", "window": "10s", "interval": "200ms"}
IMAGE = {**QUICK, "quantities": ["brightness", "sharpness"]}


def frame(number: int, *, light: float = 100, name: str = "cam") -> Frame:
    """A frame of five a second: noise around a level."""
    noise = np.random.default_rng(number).normal(light, 12, SIZE_WH[::-1])
    surface = Surface(PixelFormat.GRAY8, SIZE_WH, (np.clip(noise, 0, 255).astype(np.uint8),))
    return Frame(Stream(name), number, number * NANOSECONDS // 5, surface)


def frames(seconds: int, *, dark_from: int | None = None) -> list[Frame]:
    dark = 10**9 if dark_from is None else dark_from * 5
    return [frame(number, light=40 if number >= dark else 100) for number in range(seconds * 5)]


def events(batches: Sequence[Batch]) -> list[Event]:
    return [event for batch in batches for event in batch.events]


def operator_of(outputs: Outputs | None = None, **options: Any) -> DriftOperator:
    site = site_for("drift-1", None)
    site = site if outputs is None else dataclasses.replace(site, outputs=outputs)
    operator = Drift.model_validate({**IMAGE, **options}).build(site)
    assert isinstance(operator, DriftOperator)
    return operator


def fed(operator: DriftOperator, given: Sequence[Frame]) -> list[Event]:
    return events([operator.process(batch) for batch in make_batches(list(given), size=7)])


@pytest.fixture(scope="module")
def darkened() -> list[Frame]:
    """Seventy seconds, the last fifteen of them dark."""
    return frames(70, dark_from=55)


def test_an_event_tells_what_drifts_how_far_and_the_medians(darkened: list[Frame]) -> None:
    operator = operator_of(severity="high")
    (event,) = fed(operator, darkened)
    operator.close()

    assert (event.kind, event.rule, event.step, event.part) == ("drift", "brightness", "drift-1", Part.BEGIN)
    assert (event.data["state"], event.data["quantity"], event.data["severity"]) == ("began", "brightness", "high")
    assert float(event.data["distance"]) >= float(event.data["limit"]) >= 0.3
    assert event.data["before"] == pytest.approx(100, abs=4)
    told = operator.totals()["cam"]
    assert told["learned"] == 1
    assert told["brightness"]["image"]["events"] == 1
    assert told["brightness"]["image"]["now"] == pytest.approx(40, abs=4)
    assert told["sharpness"]["image"]["events"] == 0


def test_measures_of_each_quantity_are_published(darkened: list[Frame]) -> None:
    operator = operator_of()
    fed(operator, darkened)
    assert isinstance(operator, MeasuresDrift)
    found = {(one.stream, one.quantity, one.label): one for one in operator.drifts()}
    assert found.keys() == {("cam", "brightness", ""), ("cam", "sharpness", "")}
    assert found["cam", "brightness", ""].drifts
    assert not found["cam", "sharpness", ""].drifts


def test_frames_without_a_detection_and_damaged_ones_are_not_sampled() -> None:
    element = Drift.model_validate({**QUICK, "quantities": ["count"]})
    operator = element.build(site_for("drift-1", None))
    assert isinstance(operator, DriftOperator)
    for number in range(12):
        given = Batch((frame(number),), second(Scene(), number, 1)[0])
        if number % 3 == 1:
            given = dataclasses.replace(given, frames=(dataclasses.replace(given.frames[0], damaged=True),))
        operator.process(given.with_detection({0} if number % 3 < 2 else ()))
    (watch,) = operator._watches.values()
    assert watch._frames + sum(part.frames for part in watch._parts) == 4


def test_a_baseline_is_written_and_read_by_another_run(darkened: list[Frame], tmp_path: Path) -> None:
    first = operator_of(Outputs(tmp_path), write="{stream}.json")
    fed(first, darkened[:270])
    first.close()
    path = tmp_path / "cam.json"

    second_run = operator_of(baseline=path)
    found = fed(second_run, darkened[270:])

    assert json.loads(path.read_text())["stream"] == "cam"
    assert [event.rule for event in found] == ["brightness"]
    assert second_run.totals()["cam"]["learned"] == 1


def test_the_baseline_of_a_stream_that_ends_early_is_written_as_far_as_it_is(tmp_path: Path) -> None:
    operator = operator_of(Outputs(tmp_path), write="{stream}.json", learn="1h")
    fed(operator, frames(48))
    operator.end_stream(Stream("cam"))
    assert len(json.loads((tmp_path / "cam.json").read_text())["baseline"]["at_ns"]) == 4


def test_what_is_no_baseline_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "cam.json"
    operator = operator_of(baseline=path)
    for text in ("", "[]", '{"format": "sightline drift baseline 1", "baseline": {}}', "null", '{"a": 1}'):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=r"cam\.json is no baseline"):
            operator.process(Batch((frame(0),)))


def test_it_learns_anew_when_asked(darkened: list[Frame]) -> None:
    operator = operator_of()
    fed(operator, darkened)
    assert isinstance(operator, ResetsCounts)
    operator.reset_counts("cam")
    (ended,) = fed(operator, [frame(number, light=40) for number in range(350, 360)])
    assert (ended.part, ended.data["reason"]) == (Part.END, "relearned")
    assert operator.totals()["cam"]["learned"] < 0.2


def test_options_that_contradict_each_other_are_refused() -> None:
    for options, what in (
        ({"learn": "1h"}, "`learn` must be 4 to 400 times as long as `window`: 2h to 200h"),
        ({"window": "5s", "learn": "1m"}, "`window` is shorter than ten times `interval`: make it 10s at least"),
        ({"quantities": ["size", "size"]}, "names one twice"),
        ({"quantities": ["taste"]}, "quantities"),
    ):
        with pytest.raises(ValidationError, match=what):
            Drift.model_validate(options)


def test_frames_in_batches_of_any_size_give_the_same(darkened: list[Frame]) -> None:
    element = Drift.model_validate(IMAGE)
    one, other = (events(run_element(element, make_batches(darkened, size=size))) for size in (1, 16))
    assert [event.to_json() for event in one] == [event.to_json() for event in other] != []
