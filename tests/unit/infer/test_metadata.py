from __future__ import annotations

import pytest

from sightline_plugins.infer.card import ExportMetadata, read_metadata


def test_names_size_and_task_of_an_export_are_read() -> None:
    facts = read_metadata({"names": "{0: 'car', 1: 'person'}", "imgsz": "[480, 640]", "task": "detect", "stride": "32"})

    assert facts == ExportMetadata(labels=("car", "person"), size_wh=(640, 480), task="detect")


@pytest.mark.parametrize("names", ["['car', 'person']", "{1: 'person', 0: 'car'}"])
def test_names_may_be_a_list_or_a_mapping(names: str) -> None:
    assert read_metadata({"names": names}).labels == ("car", "person")


@pytest.mark.parametrize(
    "names", ["__import__('os').getcwd()", "{0: 'car', 2: 'bus'}", "{'a': 'car'}", "((((", "7", "", "[" * 5000]
)
def test_names_in_another_form_are_ignored(names: str) -> None:
    assert read_metadata({"names": names}).labels == ()


@pytest.mark.parametrize("imgsz", ["[640]", "[0, 640]", "'640'", "[1.5, 2.5]", "-1"])
def test_sizes_in_another_form_are_ignored(imgsz: str) -> None:
    assert read_metadata({"imgsz": imgsz}).size_wh is None


def test_one_number_is_a_square() -> None:
    assert read_metadata({"imgsz": "320"}).size_wh == (320, 320)


def test_the_shape_of_keypoints_is_an_option_of_the_head() -> None:
    assert read_metadata({"kpt_shape": "[17, 3]"}).head_options == {"keypoints": (17, 3)}


@pytest.mark.parametrize("shape", ["[17]", "[17, 4]", "[0, 3]", "17", "['a', 3]"])
def test_keypoints_in_another_form_are_ignored(shape: str) -> None:
    assert read_metadata({"kpt_shape": shape}).head_options == {}
