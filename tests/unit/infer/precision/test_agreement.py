"""16 bits are judged once, on frames of the files among the sources, by what is found at the minimum confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import ModelError
from sightline.graph import Examples, Site
from sightline.graph.registry import Registry
from sightline.media import Frame
from sightline.runtime.sources.examples import examples_of
from sightline_plugins import Detect
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine, Precision
from sightline_plugins.heads.head import Candidates, Scores, Vector
from sightline_plugins.infer.agreement import FEWEST_OBJECTS, KnownVerdicts, PrecisionJudge, agreement
from sightline_plugins.infer.host_opening import HostOpening


def found(*boxes: tuple[float, float, float, float], class_id: int = 0) -> Candidates:
    return Candidates.from_arrays(np.array(boxes).reshape(-1, 4), np.ones(len(boxes)), np.full(len(boxes), class_id))


BOX, MOVED, OTHER = (0, 0, 10, 10), (1, 0, 11, 10), (50, 50, 60, 60)


def test_boxes_agree_one_to_one_by_overlap_and_class() -> None:
    many = FEWEST_OBJECTS // 2

    assert agreement([(found(BOX), found(MOVED))] * many) == 1
    assert agreement([(found(BOX), found(OTHER))] * many) == 0
    assert agreement([(found(BOX), found(BOX, class_id=1))] * many) == 0
    assert agreement([(found(BOX), found(BOX, MOVED))] * many) == pytest.approx(2 / 3)


def test_objects_that_one_precision_misses_count_as_a_loss() -> None:
    pairs: list[tuple[Candidates, Candidates]] = [(found(BOX), found(BOX))] * 40 + [(found(BOX), found())] * 10

    assert agreement(pairs) == pytest.approx(80 / 90)


def test_too_few_objects_say_nothing() -> None:
    pairs: list[tuple[Candidates, Candidates]] = [(found(BOX), found(BOX))] * 3 + [(found(), found())] * 100

    assert agreement(pairs) is None


def test_classes_and_embeddings_are_compared_image_by_image() -> None:
    red, blue = (Scores((np.array(values, np.float32),)) for values in ([0.9, 0.1], [0.1, 0.9]))
    vector = Vector(np.array([1.0, 0.0], np.float32))

    assert agreement([(red, red)] * 15 + [(red, blue)] * 5) == 0.75
    assert agreement([(vector, vector)] * 20) == pytest.approx(1)


def test_results_of_a_kind_that_is_not_known_are_refused() -> None:
    with pytest.raises(ModelError, match="cannot be judged"):
        agreement([("one", "other")] * 20)


@pytest.fixture
def judge(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrecisionJudge:
    """A judge of the sample model, with a sample clip as its source."""
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    element = Detect(model=repository / "models" / "street.onnx", engine="openvino")
    plan, problems = element.plan()
    assert plan is not None, problems
    site = Site(device=Device())
    clip = str(repository / "sample_videos" / "gate.mp4")
    sources = {"gate": Registry().source_for(clip).model_validate({"uri": clip})}
    return HostOpening(element, plan, replace(site, examples=examples_of(sources, site))).judge


def counted(monkeypatch: pytest.MonkeyPatch, share: float | None) -> list[int]:
    """How many frames each judgement got; it finds this share."""
    frames: list[int] = []

    def judged(self: PrecisionJudge, precision: Precision, given: Iterator[Frame]) -> float | None:
        del self, precision
        frames.append(len(list(given)))
        return share

    monkeypatch.setattr(PrecisionJudge, "_share", judged)
    return frames


def test_it_judges_once_and_remembers(judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = counted(monkeypatch, 0.99)
    before = judge.known("bf16")

    verdicts = [judge("bf16").agreement, judge("bf16").agreement, judge.known("bf16").agreement]

    assert (before.agreement, verdicts, len(frames)) == (None, [0.99] * 3, 1)
    assert frames[0] > 5


def test_sources_that_show_too_little_are_not_asked_again(
    judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = counted(monkeypatch, None)

    assert [judge("bf16").agreement, judge("bf16").agreement] == [None, None]
    assert len(frames) == 1
    assert "too few objects" in judge("bf16").reason


def test_other_sources_are_asked_when_the_first_showed_too_little(
    judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = counted(monkeypatch, None)
    judge("bf16")

    def none(count: int) -> Iterator[Frame]:
        del count
        return iter(())

    replace(judge, site=replace(judge.site, examples=Examples(("another",), none)))("bf16")

    assert len(frames) == 2


def test_without_files_among_the_sources_it_says_so(judge: PrecisionJudge) -> None:
    alone = replace(judge, site=replace(judge.site, examples=None))

    reason = "there are no files among the sources to judge it on"
    assert (judge.obstacle("bf16"), alone.obstacle("bf16"), alone("bf16").reason) == (None, reason, reason)


def test_cameras_alone_use_what_a_run_on_a_file_found(judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(monkeypatch, 0.99)
    judge("bf16")

    alone = replace(judge, site=replace(judge.site, examples=None))

    assert (alone.obstacle("bf16"), alone("bf16").agreement) == (None, 0.99)


def test_each_precision_is_judged_by_itself(judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = counted(monkeypatch, 0.99)

    judge("bf16")
    judge("fp16")

    assert len(frames) == 2


def test_results_of_a_users_own_kind_cannot_be_judged(judge: PrecisionJudge) -> None:
    plan = replace(judge.plan, head=None)

    assert replace(judge, plan=plan).obstacle("bf16") == "its results are not of a kind that can be compared"


def test_a_judge_that_is_stopped_ends_at_the_next_frame(judge: PrecisionJudge) -> None:
    with pytest.raises(ModelError, match="it was stopped"):
        replace(judge, is_stopped=lambda: True)("bf16")


def test_only_what_is_known_is_previewed(judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    frames, preview = counted(monkeypatch, 0.99), KnownVerdicts(judge)
    before = preview("bf16")
    judge("bf16")

    assert (before.agreement, preview("bf16").agreement, len(frames)) == (None, 0.99, 1)
    assert preview.obstacle("bf16") is None


def test_cameras_are_not_opened_for_it() -> None:
    url = "rtsp://10.0.0.7/main"
    camera: Any = Registry().source_for(url).model_validate({"uri": url})

    assert examples_of({"yard": camera}, Site(device=Device())) is None


def test_a_file_that_cannot_be_read_does_not_hinder_the_start(tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    clip = str(tmp_path / "broken.mp4")
    source: Any = Registry().source_for(clip).model_validate({"uri": clip})

    examples = examples_of({"gate": source}, Site(device=Device()))

    assert examples is not None
    assert list(examples.frames(8)) == []


def test_the_sample_model_in_float32_agrees_with_itself(judge: PrecisionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(*given: Any, **options: Any) -> Engine:
        return open_engine(*given, **{**options, "bfloat16": False})

    monkeypatch.setattr("sightline_plugins.infer.host_opening.open_engine", exact)

    assert judge("bf16").agreement == 1
