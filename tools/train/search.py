"""The small pair of encoders for search in words: crops of 64x64 and captions become vectors of the same space.

Learned as SigLIP is (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training"): every caption of a batch is
compared with every crop. Here it is known of each pair whether the caption is true of the crop, not only of a crop and
its own caption.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn

from sightline_plugins.search.encoders import EncoderFolder
from sightline_plugins.search.encoders import ImageEncoder as SearchedImages
from tools.train.search_attributes import Attributes
from tools.train.search_captions import UNKNOWN, DescribedCrops, caption_of, vocabulary, words_of
from tools.train.search_samples import CROP_PX, Crops, with_mirrored

DIMENSIONS = 64
FEATURES = 160
WORD_DIMENSIONS = 96
OPSET = 17
MAX_WORDS = 77
IMAGE_FILE, TEXT_FILE = "vision_model.onnx", "text_model.onnx"
_BATCH = 96
_FEW_WORDS = 24
_OWN_WEIGHT = 10.0
"""Of what the image encoder is asked about each crop, beside the captions."""


class ImageEncoder(nn.Module):
    """Six convolutions, the means of four quarters, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, stride in ((3, 24, 2), (24, 40, 2), (40, 40, 1), (40, 72, 2), (72, 72, 1), (72, 112, 2)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            ]
        self.body = nn.Sequential(*layers)
        self.hidden = nn.Linear(112 * 4, FEATURES)
        self.head = nn.Linear(FEATURES, DIMENSIONS)

    def features(self, pixel_values: Tensor) -> Tensor:
        """Crops (N, 3, 64, 64), -1 to 1, to features (N, `FEATURES`)."""
        quarters = nn.functional.avg_pool2d(self.body(pixel_values), 2).flatten(1)
        return torch.relu(self.hidden(quarters))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Crops (N, 3, 64, 64), -1 to 1, to unit vectors (N, 64)."""
        return self.vectors(self.features(pixel_values))

    def vectors(self, features: Tensor) -> Tensor:
        """Features to unit vectors (N, 64)."""
        return nn.functional.normalize(self.head(features), dim=1)


class TextEncoder(nn.Module):
    """Words, each seen with its neighbours; their mean; two linear layers."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WORD_DIMENSIONS)
        self.near = nn.Conv1d(WORD_DIMENSIONS, WORD_DIMENSIONS, 3, padding=1)
        self.hidden = nn.Linear(WORD_DIMENSIONS, 128)
        self.head = nn.Linear(128, DIMENSIONS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Numbers of words (N, L) and which of them count (N, L), to unit vectors (N, 64)."""
        counts = attention_mask.unsqueeze(-1).float()
        words = self.words(input_ids) * counts
        seen = (words + torch.relu(self.near(words.transpose(1, 2)).transpose(1, 2))) * counts
        mean = seen.sum(dim=1) / counts.sum(dim=1).clamp(min=1.0).sqrt()
        return nn.functional.normalize(self.head(torch.relu(self.hidden(mean))), dim=1)


def fit_pair(crops: Crops, *, folder: Path, minutes: float, resume: bool = False, seed: int = 5) -> None:
    """Train both encoders for so many minutes and write them with their tokenizer and preprocessing; with `resume`, go
    on from those that are in the folder.
    """
    torch.manual_seed(seed)
    crops = with_mirrored(crops)
    image, start = ImageEncoder(), None
    if resume:
        _take_weights(image, folder / IMAGE_FILE, crops=crops)
        start = _weights(folder / TEXT_FILE)
    attributes = Attributes(crops.described, width=FEATURES)
    image.train()

    def vectors(rows: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        features = image.features(_augmented(crops.images[rows], rng=rng))
        return image.vectors(features), attributes(features, rows)

    learned = (*image.parameters(), *attributes.parameters())
    text = _fit(crops, vectors=vectors, parameters=learned, minutes=minutes, seed=seed, start=start)
    folder.mkdir(parents=True, exist_ok=True)
    _write_image(image.eval(), folder=folder)
    _write_text(text, folder=folder)


def fit_text(crops: Crops, *, folder: Path, minutes: float, seed: int = 5) -> None:
    """Train a text encoder for the image encoder that is in the folder, for so many minutes, and write it there: for
    other words or wordings, without looking at a crop more than once. One that is there and knows the same words is
    trained further.
    """
    torch.manual_seed(seed)
    files = EncoderFolder.at(folder)
    encoder = SearchedImages(files)
    known = torch.from_numpy(np.stack([encoder.encode(crop) for crop in crops.images]))
    encoder.close()
    print(f"{len(known)} crops encoded", flush=True)

    def vectors(rows: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        del rng
        return known[torch.from_numpy(rows)], torch.zeros(())

    start = _weights(files.text_model)
    fit = partial(_fit, crops, vectors=vectors, parameters=(), minutes=minutes, seed=seed, images_of_caption=4)
    _write_text(fit(start=start), folder=folder)


@torch.no_grad()
def _take_weights(image: ImageEncoder, path: Path, *, crops: Crops) -> None:
    """Let an image encoder continue as it was exported. There, each normalisation is part of its convolution; it is
    taken out again so that it does nothing on average: it scales by the deviations of some crops and adds their means.
    """
    given = {one.name: torch.tensor(onnx.numpy_helper.to_array(one)) for one in onnx.load(path).graph.initializer}
    plain = image.state_dict()
    image.load_state_dict({**plain, **{name: value for name, value in given.items() if name in plain}})
    folded = iter([value for name, value in given.items() if name not in plain])
    rng = np.random.default_rng(0)
    seen = _augmented(crops.images[rng.integers(len(crops.images), size=4 * _BATCH)], rng=rng)
    for layer in image.body:
        if isinstance(layer, nn.Conv2d):
            layer.weight.copy_(next(folded))
        elif isinstance(layer, nn.BatchNorm2d):
            variance, mean = torch.var_mean(seen, dim=(0, 2, 3), correction=0)
            layer.running_mean, layer.running_var = mean, variance
            layer.weight.copy_((variance + layer.eps).sqrt())
            layer.bias.copy_(next(folded) + mean)
            layer.eval()
        seen = layer(seen)


def _weights(path: Path) -> dict[str, Tensor] | None:
    """The weights of a text encoder as it was exported; None for one of other words."""
    given = {
        one.name: torch.from_numpy(onnx.numpy_helper.to_array(one).copy()) for one in onnx.load(path).graph.initializer
    }
    own = TextEncoder(len(vocabulary())).state_dict()
    fits = all(name in given and given[name].shape == value.shape for name, value in own.items())
    return {name: given[name] for name in own} if fits else None


def _fit(
    crops: Crops,
    *,
    vectors: Callable[[npt.NDArray[np.int64], np.random.Generator], tuple[Tensor, Tensor]],
    parameters: Iterable[nn.Parameter],
    minutes: float,
    seed: int,
    images_of_caption: int = 1,
    start: dict[str, Tensor] | None = None,
) -> TextEncoder:
    """Train a text encoder, and what else has these parameters, so that true captions are near the vectors of crops.

    `vectors` returns those of rows of crops, and a loss of its own. Each caption is compared with `images_of_caption`
    times as many crops as a batch has captions.
    """
    rng = np.random.default_rng([seed, 62])
    words = {word: number for number, word in enumerate(vocabulary())}
    text = TextEncoder(len(words))
    if start is not None:
        text.load_state_dict(start)
    described = DescribedCrops(crops.described)
    scale, shift = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-6.0))
    optimiser = torch.optim.AdamW([*parameters, *text.parameters(), scale, shift], lr=3e-3, weight_decay=0.02)
    started, step, mean_loss = time.monotonic(), 0, 0.0
    while (passed := (time.monotonic() - started) / (minutes * 60)) < 1:
        rate = 3e-3 * min(1.0, (step + 1) / 100) * 0.5 * (1 + np.cos(np.pi * passed))
        for group in optimiser.param_groups:
            group["lr"] = float(rate)
        rows = rng.integers(len(crops.images), size=_BATCH * images_of_caption)
        captions = [caption_of(crops.described[row], rng=rng) for row in rows[:_BATCH]]
        truth = torch.from_numpy(np.stack([described.fitting(caption, rows) for caption in captions]))
        sentences = text(*_numbered([caption.text for caption in captions], words))
        images, own_loss = vectors(rows, rng)
        logits = sentences @ images.T * scale.exp() + shift
        signs = truth.float() * 2 - 1
        weights = torch.where(truth, (~truth).sum() / truth.sum().clamp(min=1) * 0.25, 1.0)
        loss = -(nn.functional.logsigmoid(logits * signs) * weights).sum() / _BATCH
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward([loss + _OWN_WEIGHT * own_loss])
        optimiser.step()
        step, mean_loss = step + 1, 0.98 * mean_loss + 0.02 * float(loss.detach())
        if step % 200 == 0:
            told = f"loss {mean_loss / (1 - 0.98**step):.3f} and {float(own_loss.detach()):.3f}"
            print(f"step {step}, {passed:.0%} of the time, {told}", flush=True)
    text.eval()
    return text


def _augmented(images: np.ndarray, *, rng: np.random.Generator) -> Tensor:
    """Crops (N, 64, 64, 3) uint8 as the image encoder takes them; brighter or darker, and shifted by some pixels."""
    tensor = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    tensor = tensor * torch.from_numpy(rng.uniform(0.85, 1.15, (len(images), 1, 1, 1))).float()
    tensor = nn.functional.pad(tensor, (4, 4, 4, 4), mode="replicate")
    x, y = rng.integers(0, 9, 2)
    tensor = tensor[:, :, y : y + CROP_PX, x : x + CROP_PX]
    return tensor.clamp(0, 1) * 2 - 1


def _numbered(texts: list[str], words: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Texts as numbers of words (N, L), padded with 0, and which count."""
    ids = np.zeros((len(texts), _FEW_WORDS), np.int64)
    for row, text in enumerate(texts):
        numbers = [words.get(word, 1) for word in words_of(text.replace(UNKNOWN, "?"))][:_FEW_WORDS]
        ids[row, : len(numbers)] = numbers
    return torch.from_numpy(ids), torch.from_numpy((ids > 0).astype(np.int64))


def _write_image(image: ImageEncoder, *, folder: Path) -> None:
    pixels = torch.zeros(2, 3, CROP_PX, CROP_PX)
    _export(image, (pixels,), folder / IMAGE_FILE, inputs=("pixel_values",), output="image_embeds")
    preprocessing = {
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": CROP_PX, "width": CROP_PX},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing, indent=2) + "\n", encoding="utf-8")


def _write_text(text: TextEncoder, *, folder: Path) -> None:
    ids = torch.ones(2, 5, dtype=torch.int64)
    _export(text, (ids, ids), folder / TEXT_FILE, inputs=("input_ids", "attention_mask"), output="text_embeds")
    _write_tokenizer(folder / "tokenizer.json")


def _export(
    network: nn.Module, example: tuple[Tensor, ...], path: Path, *, inputs: tuple[str, ...], output: str
) -> None:
    axes = {name: {0: "batch", **({1: "sequence"} if name != "pixel_values" else {})} for name in inputs}
    torch.onnx.export(
        network,
        example,
        str(path),
        input_names=list(inputs),
        output_names=[output],
        dynamic_axes={**axes, output: {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,
    )
    graph = onnx.load(path)
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value = DIMENSIONS
    onnx.helper.set_model_props(
        graph, {"description": "Sightline search in words", "author": "Sightline", "license": "Apache-2.0"}
    )
    graph.producer_name, graph.producer_version = "sightline tools.train", ""
    onnx.checker.check_model(graph, full_check=True)
    onnx.save(graph, path)


def _write_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = {word: number for number, word in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(MAX_WORDS)
    tokenizer.save(str(path), pretty=True)
