"""Encoders: preprocessing as its file says it, and folders that are no pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sightline.errors import ModelError
from sightline_plugins.search.best_crop import sharpness
from sightline_plugins.search.encoders import EncoderFolder, ImageEncoder, Preprocessing, TextEncoder

PAIR = Path("models/search")
CLIP = {
    "do_resize": True, "size": {"shortest_edge": 224}, "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.25, 0.0],
    "image_std": [0.5, 0.25, 1.0],
}  # fmt: skip


def preprocessing(folder: Path, **changes: object) -> Preprocessing:
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps({**CLIP, **changes}))
    return Preprocessing.read(path)


def test_an_image_is_resized_cut_scaled_and_normalised(tmp_path: Path) -> None:
    rgb = np.zeros((100, 300, 3), np.uint8)
    rgb[:, 150:] = 255
    tensor = preprocessing(tmp_path).apply(rgb)
    assert tensor.shape == (1, 3, 224, 224)
    assert tensor.dtype.name == "float32"
    assert tensor[0, :, 100, 20].tolist() == pytest.approx([-1, -1, 0])
    assert tensor[0, :, 100, 200].tolist() == pytest.approx([1, 3, 1])


def test_a_small_image_is_cut_with_black_around_it_and_a_plain_size_stretches(tmp_path: Path) -> None:
    rgb = np.full((10, 20, 3), 255, np.uint8)
    assert preprocessing(tmp_path, do_resize=False).apply(rgb)[0, 2].sum() == 200
    stretched = preprocessing(tmp_path, size={"height": 32, "width": 48}, do_center_crop=False)
    assert stretched.apply(rgb).shape == (1, 3, 32, 48)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": {"shortest_edge": 0}}, "a side is"),
        ({"image_mean": [0.5]}, "three numbers"),
        ({"size": {"width": 5}}, "lacks the key 'height'"),
    ],
)
def test_a_mistake_in_the_preprocessing_is_named(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        preprocessing(tmp_path, **changes)


def test_a_folder_that_is_no_pair_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no folder"):
        EncoderFolder.at(tmp_path / "none")
    with pytest.raises(ModelError, match=r"lacks vision_model\.onnx"):
        EncoderFolder.at(tmp_path)
    shutil.copytree(PAIR, tmp_path / "pair")
    (tmp_path / "pair/tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"lacks tokenizer\.json"):
        EncoderFolder.at(tmp_path / "pair")
    (tmp_path / "pair/tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is no tokenizer"):
        TextEncoder(EncoderFolder.at(tmp_path / "pair"))


def test_models_in_the_wrong_places_are_refused(tmp_path: Path) -> None:
    shutil.copytree(PAIR, tmp_path / "pair")
    (tmp_path / "pair/vision_model.onnx").rename(tmp_path / "pair/kept")
    (tmp_path / "pair/text_model.onnx").rename(tmp_path / "pair/vision_model.onnx")
    (tmp_path / "pair/kept").rename(tmp_path / "pair/text_model.onnx")
    files = EncoderFolder.at(tmp_path / "pair")
    assert files.digest() != EncoderFolder.at(PAIR).digest()
    with pytest.raises(ModelError, match="inputs must be pixel_values"):
        ImageEncoder(files)
    with pytest.raises(ModelError, match="inputs must be input_ids"):
        TextEncoder(files)


def test_a_sharp_crop_is_sharper_than_a_blurred_one() -> None:
    drawn = np.random.default_rng(3).integers(0, 256, (12, 12)).astype(np.uint8)
    sharp = drawn.repeat(4, axis=0).repeat(4, axis=1)
    soft = sum(
        np.roll(sharp.astype(np.float32), shift, axis=(0, 1)) for shift in ((y, x) for y in range(6) for x in range(6))
    )
    assert sharpness(sharp) > 1.5 * sharpness((np.asarray(soft) / 36).astype(np.uint8))
