"""A model that is made for some files says so on others; no advice is given where it knows its way."""

from __future__ import annotations

from pathlib import Path

from sightline.graph.advice import advice_of
from sightline.pipeline import Pipeline
from sightline_plugins import Detect


def advice(repository: Path, *uris: str, **options: object) -> list[str]:
    sources = {f"s{number}": uri for number, uri in enumerate(uris)}
    detect = Detect.model_validate({"model": repository / "models" / "street.onnx", **options})
    return list(advice_of(Pipeline(sources=sources, steps=[detect]).description))


def test_a_sample_model_on_sample_clips_needs_no_word(repository: Path) -> None:
    assert advice(repository, str(repository / "sample_videos" / "street.mp4")) == []


def test_a_sample_model_on_a_camera_is_told_in_one_sentence(repository: Path) -> None:
    (text,) = advice(repository, str(repository / "sample_videos" / "street.mp4"), "rtsp://user:geheim@10.0.0.7/main")

    assert text.startswith("detect-1: street.onnx is made for dusk.mp4, entrance.mp4, gate.mp4, street.mp4 only")
    assert "on s1 it sees little, and wrong things" in text
    assert "geheim" not in text


def test_streams_that_the_step_does_not_see_do_not_matter(repository: Path) -> None:
    clip = str(repository / "sample_videos" / "street.mp4")

    assert advice(repository, clip, "rtsp://10.0.0.7/main", streams=("s0",)) == []
