"""Encoders of images and texts into one space of vectors: pairs as CLIP, SigLIP and MobileCLIP are exported.

A pair is a folder as Optimum and Transformers.js publish it: `vision_model.onnx` (`pixel_values`), `text_model.onnx`
(`input_ids`, perhaps `attention_mask`), there or below `onnx/`, with `preprocessor_config.json`, `tokenizer.json` and
perhaps `tokenizer_config.json`. Vectors have length 1, so that their dot product is the cosine of their angle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, MissingExtra, ModelError
from sightline_plugins.engines.protocol import Engine, TensorSpec, say_nothing
from sightline_plugins.store.record import ENCODER_TASK, SCHEME

Image = npt.NDArray[np.uint8]
Vector = npt.NDArray[np.float32]

IMAGE_MODEL, TEXT_MODEL = "vision_model.onnx", "text_model.onnx"
PREPROCESSING, TOKENIZER, TOKENIZER_CONFIG = "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"
MODEL_PLACES = (".", "onnx")
"""Where the models of a folder lie."""
_MOST_TOKENS = 77
_LARGEST_SIDE = 1024
_MOST_JSON_BYTES = 64_000_000
_IMAGE_OUTPUTS = ("image_embeds", "pooler_output")
_TEXT_OUTPUTS = ("text_embeds", "pooler_output")


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What becomes of an image before the network, as `preprocessor_config.json` says it.

    `resize_wh` stretches to that size; `shortest_edge` keeps the proportions; None of both: no resizing. `crop_wh`: the
    centre is cut out. `mean` and `deviation` are of values that were multiplied by `factor`.
    """

    resize_wh: tuple[int, int] | None
    shortest_edge: int | None
    crop_wh: tuple[int, int] | None
    factor: float
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    @classmethod
    def read(cls, path: Path) -> Preprocessing:
        """Read the file. Raises ModelError with the key that is wrong."""
        found = _json(path)
        try:
            resize_wh, shortest_edge = _resizing(found.get("size")) if found.get("do_resize", True) else (None, None)
            crop = _size_wh(found["crop_size"]) if found.get("do_center_crop") and "crop_size" in found else None
            factor = float(found.get("rescale_factor", 1 / 255)) if found.get("do_rescale", True) else 1.0
            normalises = bool(found.get("do_normalize", True))
            mean = _three(found["image_mean"]) if normalises else (0.0, 0.0, 0.0)
            deviation = _three(found["image_std"]) if normalises else (1.0, 1.0, 1.0)
        except KeyError as error:
            raise ModelError(f"{path} lacks the key {error}: export the preprocessing with the model") from error
        except (TypeError, ValueError) as error:
            raise ModelError(f"{path} cannot be used: {error}") from error
        return cls(resize_wh, shortest_edge, crop, factor, mean, deviation)

    def apply(self, rgb: Image) -> Vector:
        """Return an image (height, width, 3), RGB, as the network takes it: (1, 3, height, width), float32.

        Where it becomes smaller, pixels are averaged by area, which stands for the antialiased filters of Pillow.
        """
        from sightline_plugins.opencv import cv2

        height, width = rgb.shape[:2]
        size_wh = self.resize_wh
        if self.shortest_edge is not None:
            scale = self.shortest_edge / min(width, height)
            size_wh = max(round(width * scale), 1), max(round(height * scale), 1)
        if size_wh is not None and size_wh != (width, height):
            grows = size_wh[0] > width or size_wh[1] > height
            rgb = cv2.resize(rgb, size_wh, interpolation=cv2.INTER_LINEAR if grows else cv2.INTER_AREA)
        if self.crop_wh is not None:
            rgb = _centre(rgb, self.crop_wh)
        mean, deviation = np.array(self.mean, np.float32), np.array(self.deviation, np.float32)
        scaled = (rgb.astype(np.float32) * np.float32(self.factor) - mean) / deviation
        return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class EncoderFolder:
    """The files of a pair."""

    folder: Path
    image_model: Path
    text_model: Path

    @classmethod
    def at(cls, folder: Path) -> EncoderFolder:
        """Find the files of a folder. Raises ModelError that names what is missing, and what a pair is."""
        if not folder.is_dir():
            raise ModelError(f"{folder} is no folder: an encoder is a folder with {IMAGE_MODEL} and {TEXT_MODEL}")
        found = [_model_in(folder, name) for name in (IMAGE_MODEL, TEXT_MODEL)]
        for name in (PREPROCESSING, TOKENIZER):
            if not (folder / name).is_file():
                raise ModelError(f"{folder} lacks {name}, which is exported beside the models of an encoder")
        return cls(folder, *found)

    def digest(self) -> str:
        """What tells encoders apart whose vectors cannot be compared: 32 digits of the SHA-256 of both models."""
        digest = hashlib.sha256()
        for path in (self.image_model, self.text_model, self.folder / PREPROCESSING):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:32]


def encoder_folder(named: str | Path) -> Path:
    """Return the folder of a pair, which may be named as one of the store: `store:clip@1`.

    Raises ConfigurationError for a name that is not there or no pair, and ModelError for one that is damaged.
    """
    if not isinstance(named, str) or not named.startswith(SCHEME):
        return Path(named)
    from sightline_plugins.store import Store

    stored = Store().usable(named)
    if stored.record.task != ENCODER_TASK:
        raise ConfigurationError(f"{stored.reference} is no pair of encoders: it is used with `{stored.record.usage}`")
    return stored.folder


class ImageEncoder:
    """Encodes images. One thread uses it; close it when done."""

    def __init__(self, files: EncoderFolder, *, warn: Callable[[str], None] = say_nothing) -> None:
        """Raises ModelError for files that are no image encoder."""
        self._preprocessing = Preprocessing.read(files.folder / PREPROCESSING)
        self._engine = _open(files.image_model, warn=warn)
        (spec,) = _inputs(self._engine, files.image_model, known=("pixel_values",))
        if spec.dtype != np.float32 or len(spec.shape) != 4:
            raise ModelError(f"{files.image_model}: the input must be pixel_values float32 (N, 3, H, W), not {spec}")
        self._output = _output(self._engine, files.image_model, names=_IMAGE_OUTPUTS)

    @property
    def engine_name(self) -> str:
        """What runs the network."""
        return self._engine.name

    def encode(self, rgb: Image) -> Vector:
        """Return the vector (D,) of an image (height, width, 3), RGB. Raises ModelError where it has none."""
        outputs = self._engine.submit([self._preprocessing.apply(rgb)]).result()
        return _unit(outputs[self._output])

    def close(self) -> None:
        """Free the model; harmless when called again."""
        self._engine.close()


class TextEncoder:
    """Encodes texts. One thread uses it; close it when done. Needs the package `tokenizers`."""

    def __init__(self, files: EncoderFolder) -> None:
        """Raises ModelError for files that are no text encoder, and MissingExtra."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("tokenizers", extra="search", purpose="search in words") from error
        path = files.folder / TOKENIZER
        config = files.folder / TOKENIZER_CONFIG
        about = _json(config) if config.is_file() else {}
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise ModelError(f"{path} is no tokenizer: {error}") from error
        length = about.get("model_max_length", _MOST_TOKENS)
        self._length = min(int(length), _MOST_TOKENS) if isinstance(length, int | float) else _MOST_TOKENS
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._length)
        self._engine = _open(files.text_model, warn=say_nothing)
        self._inputs = _inputs(self._engine, files.text_model, known=("input_ids", "attention_mask"))
        self._output = _output(self._engine, files.text_model, names=_TEXT_OUTPUTS)
        self._padding: int | None = None
        if len(self._inputs) == 1:  # without a mask, the network was trained on texts of one length
            self._padding = self._padding_id(about.get("pad_token"))

    def encode(self, text: str) -> Vector:
        """Return the vector (D,) of a text; what is longer than the network takes is cut off. Raises ModelError."""
        ids = self._tokenizer.encode(text).ids
        if not ids:
            raise ModelError(f"the text {text!r} has no word: say what is looked for")
        if self._padding is not None:
            ids += [self._padding] * (self._length - len(ids))
        given = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        arrays = [np.array([given[spec.name]], spec.dtype) for spec in self._inputs]
        return _unit(self._engine.submit(arrays).result()[self._output])

    def close(self) -> None:
        """Free the model; harmless when called again."""
        self._engine.close()

    def _padding_id(self, token: object) -> int:
        """The number of the token that pads; `tokenizer_config.json` names it, as a text or with its properties."""
        named = token.get("content") if isinstance(token, Mapping) else token
        found = (self._tokenizer.token_to_id(one) for one in (named, "<pad>", "[PAD]", "</s>") if isinstance(one, str))
        return next((number for number in found if number is not None), 0)


def _open(path: Path, *, warn: Callable[[str], None]) -> Engine:
    from sightline_plugins.engines.opening import open_engine

    return open_engine(path, concurrency=1, warn=warn)


def _model_in(folder: Path, name: str) -> Path:
    for place in MODEL_PLACES:
        if (folder / place / name).is_file():
            return folder / place / name
    raise ModelError(
        f"{folder} lacks {name}: an encoder is two ONNX files, {IMAGE_MODEL} and {TEXT_MODEL}, as Optimum exports them"
    )


def _inputs(engine: Engine, path: Path, *, known: tuple[str, ...]) -> tuple[TensorSpec, ...]:
    names = [spec.name for spec in engine.inputs]
    if known[0] not in names or not set(names) <= set(known):
        engine.close()
        raise ModelError(f"{path}: the inputs must be {' and '.join(known)}, not {', '.join(names)}")
    return engine.inputs


def _output(engine: Engine, path: Path, *, names: tuple[str, ...]) -> int:
    found = [spec.name for spec in engine.outputs]
    for name in names:
        if name in found:
            return found.index(name)
    engine.close()
    raise ModelError(f"{path}: an output must be {' or '.join(names)}; there is {', '.join(found)}")


def _unit(output: npt.NDArray[Any]) -> Vector:
    vector = np.asarray(output, np.float32).ravel()
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise ModelError("the encoder gave a vector without a direction: numbers that are not finite, or zeros only")
    result: Vector = vector / np.float32(length)
    return result


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_JSON_BYTES:
            raise ModelError(f"{path} is larger than {_MOST_JSON_BYTES // 1_000_000} MB, which no such file is")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} must hold a JSON object")
    return found


def _resizing(size: object) -> tuple[tuple[int, int] | None, int | None]:
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return None, _side(size["shortest_edge"])
    if isinstance(size, int):
        return None, _side(size)
    return _size_wh(size), None


def _size_wh(size: object) -> tuple[int, int]:
    if isinstance(size, Mapping):
        return _side(size["width"]), _side(size["height"])
    return _side(size), _side(size)


def _side(value: object) -> int:
    if not isinstance(value, int) or not 1 <= value <= _LARGEST_SIDE:
        raise ValueError(f"a side is a number of pixels from 1 to {_LARGEST_SIDE}, not {value!r}")
    return value


def _three(values: object) -> tuple[float, float, float]:
    if not isinstance(values, list) or len(values) != 3:
        raise ValueError(f"a mean or deviation is a list of three numbers, not {values!r}")
    red, green, blue = map(float, values)
    return red, green, blue


def _centre(rgb: Image, size_wh: tuple[int, int]) -> Image:
    """The centre of an image in that size; black around it where it is smaller."""
    width, height = size_wh
    above, beside = max(height - rgb.shape[0], 0), max(width - rgb.shape[1], 0)
    if above or beside:
        rgb = np.pad(rgb, ((above // 2, above - above // 2), (beside // 2, beside - beside // 2), (0, 0)))
    top, left = (rgb.shape[0] - height) // 2, (rgb.shape[1] - width) // 2
    return rgb[top : top + height, left : left + width]
