"""The detector of number plates on vehicles: a smaller sister of the detector of the streets, for crops of 128x128."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tools.train.detector import STRIDES, Deployed, Detector, points
from tools.train.export import write_onnx
from tools.train.fit import Average, groups
from tools.train.loss import Targets, loss
from tools.train.plate_samples import VEHICLE_PX, VehicleCrops
from tools.train.schedule import Clock

WIDTHS = (8, 14, 20, 28, 32)
BATCH = 32
LEARNING_RATE = 3e-3
SIZE_WH = (VEHICLE_PX, VEHICLE_PX)


def fit_plates(crops: VehicleCrops, *, model: Path, minutes: float, seed: int = 5) -> None:
    """Train for so many minutes and writes the ONNX file."""
    torch.manual_seed(seed)
    network = Detector(classes=1, widths=WIDTHS)
    average = Average(network)
    optimiser = torch.optim.AdamW(groups(network), lr=LEARNING_RATE, betas=(0.9, 0.99))
    clock = Clock(minutes, rate=LEARNING_RATE)
    centres, strides = points(SIZE_WH)
    network.train()
    for images, targets in _batches(crops, rng=np.random.default_rng([seed, 71])):
        if not clock.step(optimiser):
            break
        box_loss, score_loss = loss(network(images), centres=centres, strides=strides, targets=targets)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward([box_loss + score_loss])
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimiser.step()
        average.follow(network)
        clock.report(box=float(box_loss.detach()), score=float(score_loss.detach()))
    export_plates(average.network, model=model)


def export_plates(network: Detector, *, model: Path) -> None:
    """Write the detector: input `images`, output `output0`, dynamic batch."""
    metadata = {
        "description": "Sightline number plate detector, for crops of vehicles",
        "author": "Sightline",
        "license": "Apache-2.0",
        "task": "detect",
        "batch": "1",
        "stride": str(max(STRIDES)),
        "imgsz": str([VEHICLE_PX, VEHICLE_PX]),
        "names": repr({0: "plate"}),
    }
    deployed = Deployed(copy.deepcopy(network), size_wh=SIZE_WH).eval()
    example = torch.zeros(2, 3, VEHICLE_PX, VEHICLE_PX)
    write_onnx(deployed, model=model, example=example, outputs=("output0",), metadata=metadata)


def _batches(crops: VehicleCrops, *, rng: np.random.Generator) -> Iterator[tuple[Tensor, Targets]]:
    """Endless batches, mirrored and in other light."""
    while True:
        rows = rng.integers(len(crops.own), size=BATCH)
        images = torch.from_numpy(crops.images[rows]).permute(0, 3, 1, 2).float() / 255
        own, ignored = crops.own[rows][:, None], crops.ignored[rows]
        if rng.uniform() < 0.5:
            images = images.flip(3)
            own, ignored = (VEHICLE_PX * np.array([1, 0, 1, 0]) - boxes * (1, -1, 1, -1) for boxes in (own, ignored))
            own, ignored = (boxes[..., [2, 1, 0, 3]] for boxes in (own, ignored))
        gain = torch.from_numpy(rng.uniform(0.7, 1.25, (BATCH, 1, 1, 1)) * rng.uniform(0.94, 1.06, (BATCH, 3, 1, 1)))
        images = (images * gain.float() + float(rng.uniform(-0.05, 0.05))).clamp(0, 1)
        real = torch.from_numpy(~np.isnan(own[..., 0])).float()
        yield (
            images,
            Targets(
                torch.zeros(BATCH, 1, dtype=torch.long),
                torch.from_numpy(np.nan_to_num(own)).float(),
                real,
                torch.from_numpy(np.nan_to_num(ignored)).float(),
            ),
        )
