"""The reader of number plates: a column of convolutions that gives a letter, or none, for each of 32 places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tools.train.export import write_onnx
from tools.train.fit import Average, groups
from tools.train.plate_print import printed
from tools.train.plate_samples import TEXT_WH, TextCrops
from tools.train.schedule import Clock
from tools.world.lettering import ALPHABET

BATCH = 64
RENDERED_SHARE = 0.4
LEARNING_RATE = 3e-3
BLANK = 0


class _Layer(nn.Sequential):
    def __init__(
        self, inputs: int, outputs: int, *, kernel: tuple[int, int] = (3, 3), stride: tuple[int, int] = (1, 1)
    ) -> None:
        padding = (kernel[0] // 2 if kernel[0] % 2 else 0, kernel[1] // 2)
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class Reader(nn.Module):
    """Grey plates (N, 1, 32, 128), 0 to 1, to logits (N, 32, 1 + letters); the first class is the blank of CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _Layer(1, 24, stride=(2, 2)),
            _Layer(24, 40, stride=(2, 1)),
            _Layer(40, 64, stride=(1, 2)),
            _Layer(64, 80, stride=(2, 1)),
            _Layer(80, 80),
            _Layer(80, 112, kernel=(4, 1)),
            _Layer(112, 112, kernel=(1, 3)),
        )
        self.letters = nn.Conv2d(112, 1 + len(ALPHABET), 1)

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        out: Tensor = self.letters(self.body(images)).squeeze(2).transpose(1, 2)
        return out


class _Probable(nn.Module):
    def __init__(self, reader: nn.Module) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.reader(images)
        return logits.softmax(dim=2)


def fit_reader(rendered: TextCrops, *, model: Path, minutes: float, prints: int = 30_000, seed: int = 6) -> None:
    """Train for so many minutes on printed and on rendered plates; writes the ONNX file."""
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 72])
    network = Reader()
    average = Average(network)
    optimiser = torch.optim.AdamW(groups(network), lr=LEARNING_RATE, betas=(0.9, 0.99))
    made = printed(prints, rng=rng)
    clock = Clock(minutes, rate=LEARNING_RATE)
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    network.train()
    for images, letters, lengths in _batches(made, rendered, rng=rng):
        if not clock.step(optimiser):
            break
        chances = network(images).log_softmax(dim=2).transpose(0, 1)
        places = torch.full((len(images),), chances.shape[0], dtype=torch.long)
        loss = ctc(chances, letters, places, lengths)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        average.follow(network)
        clock.report(loss=float(loss.detach()))
    export_reader(average.network, model=model)


def export_reader(network: nn.Module, *, model: Path) -> None:
    """Write the reader: input `images`, output `letters` (probabilities, the blank first), dynamic batch."""
    metadata = {
        "description": "Sightline number plate reader",
        "author": "Sightline",
        "license": "Apache-2.0",
        "task": "read",
        "alphabet": ALPHABET,
    }
    example = torch.zeros(2, 1, TEXT_WH[1], TEXT_WH[0])
    write_onnx(_Probable(network).eval(), model=model, example=example, outputs=("letters",), metadata=metadata)


def _batches(
    made: TextCrops, rendered: TextCrops, *, rng: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Endless batches: images, the letters of all one after the other, and how many each has."""
    count = round(BATCH * RENDERED_SHARE)
    while True:
        first, second = rng.integers(len(made.texts), size=BATCH - count), rng.integers(len(rendered.texts), size=count)
        texts = [made.texts[row] for row in first] + [rendered.texts[row] for row in second]
        images = np.concatenate([made.images[first], rendered.images[second]])
        images = torch.from_numpy(images)[:, None].float() / 255
        gain = torch.from_numpy(rng.uniform(0.75, 1.25, (BATCH, 1, 1, 1))).float()
        level = torch.from_numpy(rng.uniform(-0.12, 0.12, (BATCH, 1, 1, 1))).float()
        images = (images * gain + level + 0.02 * float(rng.uniform()) * torch.randn_like(images)).clamp(0, 1)
        letters = [1 + ALPHABET.index(letter) for text in texts for letter in text]
        yield images, torch.tensor(letters), torch.tensor([len(text) for text in texts])
