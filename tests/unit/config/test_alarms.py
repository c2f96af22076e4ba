"""Rules with `verify`: their alarms reach a step that verifies them."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.config.alarm_checks import lost_alarms
from sightline.graph import Parallel, Tee
from sightline.graph.tree import Step
from sightline_plugins import Describe, Record, Zones

STREAMS = ("gate", "yard")


def zones(verify: Any = True, **options: Any) -> Zones:
    zone = {"polygon": [[0, 0], [1, 0], [1, 1]], "verify": verify}
    return Zones.model_validate({"yard": zone, **options})


def describe(**options: Any) -> Describe:
    return Describe.model_validate({"url": "http://127.0.0.1:9/v1", "model": "m", "path": "d.db", **options})


RECORD = Record.model_validate({"path": "{time}.mp4", "on": ["zones.yard.enter"]})


def told(*steps: Step) -> list[tuple[tuple[Any, ...], str]]:
    return list(lost_alarms(steps, streams=STREAMS))


@pytest.mark.parametrize(
    "steps",
    [
        (zones(), describe()),
        (zones(), describe(about="alarms"), RECORD),
        (zones({"by": "second"}), describe(), describe(id="second")),
        (zones({"by": "describe-2"}), describe(), describe()),
        (zones(streams=["gate"]), describe(streams=["g*"]), describe(streams=["yard"])),
        (zones(), describe(streams=["gate"]), describe(streams=["yard"])),
        (Tee(branches={"a": (zones(), describe()), "b": ()}),),
        (Parallel(branches={"a": (zones(),), "b": ()}), describe()),
        (zones(verify=False), RECORD),
    ],
    ids=[
        *("behind", "alarms only", "by its id", "by its number", "on its stream", "each on a stream"),
        *("in a branch", "behind a parallel", "not to be verified"),
    ],
)
def test_alarms_that_are_verified_are_no_mistake(steps: tuple[Step, ...]) -> None:
    assert told(*steps) == []


@pytest.mark.parametrize(
    ("steps", "streams"),
    [
        ((zones(),), "'gate'"),
        ((describe(), zones()), "'gate'"),
        ((zones(), describe(streams=["gate"])), "'yard'"),
        ((zones(), Tee(branches={"a": (describe(),), "b": ()})), "'gate'"),
        ((Tee(branches={"a": (zones(),), "b": ()}), describe()), "'gate'"),
    ],
    ids=["nowhere", "before", "on another stream", "in a tee", "behind a tee"],
)
def test_alarms_that_nobody_verifies_are_told_at_the_rule(steps: tuple[Step, ...], streams: str) -> None:
    ((key, message),) = told(*steps)

    assert key[-2:] == ("yard", "verify")
    assert message.startswith(f"nobody verifies these alarms, which would never come out on the stream {streams}: put")


def test_a_step_that_is_not_there_is_told_with_those_that_are() -> None:
    ((key, message),) = told(zones({"by": "other"}), describe())

    assert key[-3:] == ("yard", "verify", "by")
    assert message == "no describe step behind this one is called 'other'; those are: describe-1"


def test_a_step_that_waits_for_alarms_before_they_are_verified_is_told() -> None:
    ((key, message),) = told(zones(), RECORD, describe())

    assert key == ("pipeline", 1, "record", "on", 0)
    assert message == (
        "alarms of zones-1.yard come behind 'describe-1' only, which verifies them: put this step behind it"
    )


def test_a_step_that_verifies_cannot_be_skipped() -> None:
    ((key, message),) = told(zones(), describe(on_error="skip"))

    assert key == ("pipeline", 1, "describe")
    assert "alarms would be lost with on_error: skip" in message


def test_a_step_for_alarms_only_needs_some() -> None:
    ((key, message),) = told(zones(verify=False), describe(about="alarms"))

    assert key == ("pipeline", 1, "describe", "about")
    assert message.startswith("no rule has alarms for it")


@pytest.mark.parametrize(
    ("verify", "message"),
    [
        ({"confirm": ["ja"], "refuse": ["Ja"]}, "'ja' stands in confirm and in refuse"),
        ({"confirm": []}, "confirm"),
        ({"refuse": "..."}, "must begin with a letter"),
        ({"otherwise": "drop"}, "otherwise"),
        ({"timeout": 0}, "timeout"),
        ("maybe", "verify"),
    ],
)
def test_options_that_make_no_sense_are_refused(verify: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        zones(verify)
