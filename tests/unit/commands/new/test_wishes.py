"""The words of `new`: classes and their groups, the model that finds them, and URLs without their passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.commands.new.wishes import Camera, catalogue_offers, choose_model, classes_of, read_source

CATALOGUE = catalogue_offers()


@pytest.mark.parametrize(
    ("words", "classes"),
    [
        ("people", ("person",)),
        ("person, Car", ("person", "car")),
        ("vehicles", ("car", "truck", "bus", "motorcycle", "bicycle")),
        ("faces", ("face",)),
        ("people,person", ("person",)),
    ],
)
def test_words_mean_classes(words: str, classes: tuple[str, ...]) -> None:
    assert classes_of(words.split(","), catalogue=CATALOGUE) == classes


def test_a_word_that_no_model_knows_gets_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"no model of the catalogue finds 'peeple'; did you mean 'people'\?"):
        classes_of(["peeple"], catalogue=CATALOGUE)


def test_a_group_without_a_model_is_not_offered() -> None:
    with pytest.raises(ConfigurationError, match="finds 'plates'"):
        classes_of(["plates"], catalogue=CATALOGUE)


def test_a_model_that_is_here_goes_first() -> None:
    assert choose_model(["person", "car"], catalogue=CATALOGUE, pulled=[]).name == "yolox-nano"
    assert choose_model(["person", "car"], catalogue=CATALOGUE, pulled=["deimv2-atto"]).name == "deimv2-atto"
    assert choose_model(["face"], catalogue=CATALOGUE, pulled=["deimv2-atto"]).name == "yunet"


def test_classes_of_several_models_are_asked_for_one_at_a_time() -> None:
    with pytest.raises(ConfigurationError, match="no single model of the catalogue finds face and car"):
        choose_model(["face", "car"], catalogue=CATALOGUE, pulled=[])


def test_a_file_is_named_from_the_folder_of_the_pipeline() -> None:
    assert read_source("clips/gate.mp4", beside=Path("pipelines")).uri == "../clips/gate.mp4"
    assert read_source("/clips/gate.mp4", beside=Path("pipelines")).uri == "/clips/gate.mp4"


@pytest.mark.parametrize(
    ("text", "camera"),
    [
        ("clips/My Gate.mp4", Camera("my-gate", "clips/My Gate.mp4", None, is_live=False)),
        ("rtsp://10.0.0.7/main", Camera("main", "rtsp://10.0.0.7/main", None, is_live=True)),
        ("rtsp://10.0.0.7", Camera("camera-10-0-0-7", "rtsp://10.0.0.7", None, is_live=True)),
        ("/dev/video0", Camera("video0", "/dev/video0", None, is_live=True)),
        (
            "rtsp://ad%2Fmin:ge%40heim@10.0.0.7:554/Streaming/101?x=1",
            Camera(
                "camera-101",
                "rtsp://ad%2Fmin:${CAMERA_101_PASSWORD}@10.0.0.7:554/Streaming/101?x=1",
                "CAMERA_101_PASSWORD",
                is_live=True,
            ),
        ),
        ("rtsp://:@h/gate", Camera("gate", "rtsp://:${GATE_PASSWORD}@h/gate", "GATE_PASSWORD", is_live=True)),
    ],
)
def test_a_source_has_a_name_and_no_password(text: str, camera: Camera) -> None:
    assert read_source(text) == camera
