"""Every shared model runs from a card alone, and every stage of it agrees with the plain reference."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sightline_plugins.commands.model_step import model_step
from sightline_plugins.commands.verify.command import plan_of
from sightline_plugins.commands.verify.comparison import compare
from sightline_plugins.commands.verify.images import images_of

COCO, FACES, CLASSIFY, WORDS = "coco/val", "faces", "classify", "words"
NUMBERS = "labels: {labels}/coco80.names\n"
PADDLE = "input: {size: [320, 32], fit: height, color: bgr, mean: 127.5, scale: 127.5, pad: 128}\n"
CARDS = {
    "FastestDet": (COCO, "task: detect\nhead: fastestdet\nconfidence: 0.5\n" + NUMBERS),
    "yolox_nano": (COCO, "task: detect\nhead: yolox\nconfidence: 0.3\n" + NUMBERS),
    "deimv2_hgnetv2_atto_coco": (COCO, "task: detect\nconfidence: 0.4\n" + NUMBERS),
    "yunet_n_dynamic": (FACES, "task: detect\nhead: yunet\nconfidence: 0.6\nnms: {iou: 0.3}\n"),
    "SqueezeNet_fp16": (
        CLASSIFY,
        "task: classify\nlabels: {labels}/imagenet1000.txt\ninput: {fit: stretch, color: bgr, mean: 0, scale: 1}\n",
    ),
    "deeplab_v3_257": (COCO, "task: segment\ninput: {fit: stretch, mean: 127.5, scale: 127.5}\n"),
    "osnet_x0_25_msmt17": (
        COCO,
        "task: embed\ninput: {fit: stretch, mean: [123.675, 116.28, 103.53], scale: [58.395, 57.12, 57.375]}\n",
    ),
    "en_number_mobile_v2.0_rec": (
        WORDS,
        "task: read\nlabels: {labels}/en_dict.txt\nhead_options: {space: true}\n" + PADDLE,
    ),
}


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("name", sorted(CARDS))
def test_a_shared_model_runs_from_its_card_as_in_a_notebook(
    shared_data: Path, tmp_path: Path, name: str, engine: str
) -> None:
    images, card = CARDS[name]
    model = tmp_path / f"{name}.onnx"
    shutil.copyfile(shared_data / "models" / model.name, model)
    model.with_suffix(".yaml").write_text(card.replace("{labels}", str(shared_data / "models")))

    element, _ = model_step(model, None, (f"engine={engine}",))
    plan, boxes = plan_of(element)
    compared = compare(element, plan, images_of(str(shared_data / "truth" / images), count=10), boxes=boxes)

    differs = compared.stages.first_difference
    assert differs is None, f"{differs.name}: {differs.difference}"
