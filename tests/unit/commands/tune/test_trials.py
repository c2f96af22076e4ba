"""What is run of a pipeline that is tuned."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.config import description_from
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline_plugins.commands.tune.trials import Setting, candidates, trial_of

MODEL = Path(__file__).parents[4] / "models/street.onnx"
HALL = {"polygon": [[0, 0], [1, 0], [1, 1]]}
DETECT = {"detect": {"model": str(MODEL)}}


def described(*steps: object) -> PipelineDescription:
    pattern = {"pattern": "bars", "frames": 3}
    return description_from({"sources": {"gate": pattern, "yard": pattern}, "pipeline": list(steps)})


def test_other_streams_and_what_has_effects_outside_are_left_out() -> None:
    lines = {"door": {"from": [0, 0.5], "to": [1, 0.5]}}
    whole = described(
        {"detect": {"model": str(MODEL), "streams": ["yard"]}},
        {"detect": {"model": str(MODEL), "streams": ["gate"]}},
        "track",
        {"lines": lines},
        {
            "tee": {
                "files": [{"jsonl": {"path": "x.jsonl"}}],
                "counts": [{"zones": {"streams": ["yard"], "hall": HALL}}],
            }
        },
    )
    trial = trial_of(whole, stream="gate", clip=whole.sources["gate"], step=None)

    assert [one for one, _ in trial.description.elements()] == ["detect-2", "track-1", "lines-1"]
    assert list(trial.description.sources) == ["gate"]


def test_a_setting_replaces_what_was_configured_and_keeps_the_rest_of_the_budget() -> None:
    budget = {"max_loss": 0.2, "max_rate": 40}
    whole = described({"detect": {"model": str(MODEL), "every": "auto", "budget": budget}}, "track")
    detect = trial_of(whole, stream="gate", clip=whole.sources["gate"], step="detect-1").detect

    changed = Setting(None, 0.03).applied(detect)
    assert changed.budget is not None
    assert (changed.every, changed.budget.max_loss, changed.budget.max_rate) == ("auto", 0.03, 40)
    assert "budget" not in Setting(4).applied(detect).model_dump(exclude_unset=True)


def test_stacks_of_frames_are_tried_with_intervals_only() -> None:
    whole = described(DETECT, "track")
    detect = trial_of(whole, stream="gate", clip=whole.sources["gate"], step=None).detect

    assert any(setting.max_loss for setting in candidates(detect))
    assert not any(setting.max_loss for setting in candidates(detect.model_copy(update={"frames": 4})))


@pytest.mark.parametrize(
    ("steps", "step", "message"),
    [
        ([DETECT], None, "no track step is behind detect-1"),
        (["draw"], None, "0 steps detect on whole frames of 'gate': there is nothing to tune"),
        ([DETECT, DETECT, "track"], None, "name one with --step: detect-1, detect-2"),
        ([DETECT, "track"], "track-1", "'track-1' does not detect on whole frames of 'gate': detect-1"),
    ],
)
def test_pipelines_that_cannot_be_tuned(steps: list[object], step: str | None, message: str) -> None:
    whole = described(*steps)
    with pytest.raises(ConfigurationError, match=message):
        trial_of(whole, stream="gate", clip=whole.sources["gate"], step=step)
