"""Choose the precision that a model runs at: FP32, or a quantized file beside it that was measured to be faster."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from sightline.cache import cache_folder
from sightline.errors import ConfigurationError, ModelError
from sightline_plugins.engines.address import ModelSource
from sightline_plugins.engines.cache import key_digest
from sightline_plugins.engines.model_file import external_files
from sightline_plugins.engines.protocol import Array, Engine, Pending, Precision
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.infer.options import ModelElement

NOTE_KEY = "sightline.quantized"
"""The entry of the file's metadata that holds the note, as JSON."""
SUFFIX = ".int8.onnx"


@dataclass(frozen=True, slots=True)
class QuantizedNote:
    """What `sightline quantize` wrote down in a file.

    `source_sha256` is the digest (`file_digest`) of the model that it was made from. `lost_points` are the points of
    `measure` (100 is everything) that it lost against that on the images it was judged by, of at most
    `budget_points`.
    """

    source_sha256: str
    measure: str
    lost_points: float
    budget_points: float

    @property
    def is_within_budget(self) -> bool:
        """Whether it lost no more than it may."""
        return self.lost_points <= self.budget_points


@dataclass(frozen=True, slots=True)
class QuantizedFile:
    """A quantised file that fits its model."""

    path: Path
    note: QuantizedNote


def quantized_path(model: Path) -> Path:
    """Where the quantised file of a model lies: `street.int8.onnx` beside `street.onnx`."""
    return model.with_suffix(SUFFIX)


def how_to_make(model: Path) -> str:
    """The command that makes the quantised file."""
    return f"sightline quantize {model} --frames CLIP"


def find_quantized(model: Path) -> QuantizedFile:
    """The quantised file beside a model. Raises ModelError, saying how to make it, where there is none that fits."""
    path = quantized_path(model)
    if not path.is_file():
        if is_quantized(model):
            raise ModelError(f"{model} is quantised already, and computed as it is: leave precision out")
        raise ModelError(f"{path} is missing, the quantised file of this model: make it with {how_to_make(model)}")
    note = read_note(path)
    if note is None:
        raise ModelError(
            f"{path} does not say what it was made from: give it as the model itself, or make it again with "
            f"{how_to_make(model)}"
        )
    if note.source_sha256 != file_digest(model):
        raise ModelError(
            f"{path} was made from another {model.name} than the one beside it: make it again with {how_to_make(model)}"
        )
    return QuantizedFile(path, note)


def is_quantized(path: Path) -> bool:
    """Whether `sightline quantize` wrote that file."""
    try:
        return read_note(path) is not None
    except ModelError:
        return False


def read_note(path: Path) -> QuantizedNote | None:
    """What a quantised file says of itself; None for one that `sightline quantize` did not write. Raises ModelError."""
    text = read_facts(path).metadata.get(NOTE_KEY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text.encode(), type=QuantizedNote)
    except msgspec.DecodeError as error:
        raise ModelError(f"model {str(path)!r}: its entry {NOTE_KEY!r} is damaged: {error}") from error


def file_digest(path: Path) -> str:
    """The SHA-256 of a model's file, in hexadecimal; with weights in other files, that of all their digests.

    Raises ModelError when one of them cannot be read.
    """
    try:
        files = (path, *_external_files(path, _stamp(path)))
        digests = [_digest(file, _stamp(file)) for file in files]
    except OSError as error:
        raise ModelError(f"model {str(path)!r}: cannot be read: {error.strerror}") from error
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file is written anew. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=64)
def _external_files(path: Path, stamp: tuple[int, ...]) -> tuple[Path, ...]:
    del stamp
    return external_files(path)


@lru_cache(maxsize=64)
def _digest(path: Path, stamp: tuple[int, ...]) -> str:
    del stamp
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measured_once(
    key: Mapping[str, Any], *, count: int, measure: Callable[[], Sequence[float]], for_processor: bool = True
) -> Sequence[float]:
    """The `count` times that belong to a key: those of before, else they are measured now and kept.

    Those `for_processor` count for processors like this machine's alone. Trouble with the folder harms nothing.
    """
    folder = cache_folder()
    if folder is None:
        return measure()
    file = folder / "precision" / f"{key_digest(key, for_processor=for_processor)}.json"
    known = _read(file, count=count)
    if known is not None:
        return known
    measured = measure()
    _write(file, measured)
    return measured


def _read(file: Path, *, count: int) -> list[float] | None:
    """What was measured; None when nothing was, or the file is damaged."""
    try:
        known = msgspec.json.decode(file.read_bytes(), type=list[float])
    except (OSError, msgspec.DecodeError):
        return None
    return known if len(known) == count and all(one > 0 for one in known) else None


def _write(file: Path, measured: Sequence[float]) -> None:
    """Keep what was measured; where that is not possible it is measured again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = file.with_suffix(".part")
        aside.write_bytes(msgspec.json.encode(list(measured)))
        aside.replace(file)


_OPEN_SIZE = 320
"""Height and width of made images, for models that leave them open."""
_ROUNDS = 5
_LONGEST_ROUND = 64


def interleaved_seconds(engines: Sequence[Engine], *, budget_seconds: float, rounds: int = _ROUNDS) -> list[float]:
    """The median time for an image of each engine, kept busy, over rounds in turn of about `budget_seconds` in all."""
    inputs = [_made_inputs(engine) for engine in engines]
    once = [
        _round(engine, arrays, images=engine.concurrency + 1) for engine, arrays in zip(engines, inputs, strict=True)
    ]
    share = budget_seconds / (rounds * len(engines))
    counts = [
        max(engine.concurrency, min(_LONGEST_ROUND, int(share / one)))
        for engine, one in zip(engines, once, strict=True)
    ]
    times: list[list[float]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, arrays, count, noted in zip(engines, inputs, counts, times, strict=True):
            noted.append(_round(engine, arrays, images=count))
    return [statistics.median(noted) for noted in times]


def _round(engine: Engine, arrays: Sequence[Array], *, images: int) -> float:
    """Seconds an image, with always two more submitted than are computed at once."""
    begun = time.perf_counter()
    underway: deque[Pending] = deque()
    for _ in range(images):
        if len(underway) >= engine.concurrency + 2:
            underway.popleft().result()
        underway.append(engine.submit(arrays))
    for work in underway:
        work.result()
    return (time.perf_counter() - begun) / images


def _made_inputs(engine: Engine) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = [
        tuple(size or (_OPEN_SIZE if place else 1) for place, size in enumerate(spec.shape)) for spec in engine.inputs
    ]
    return [
        random.integers(0, 256, shape).astype(spec.dtype)
        if spec.dtype.kind in "iu"
        else random.random(shape, np.float32).astype(spec.dtype)
        for spec, shape in zip(engine.inputs, shapes, strict=True)
    ]


LEAST_GAIN = 1.05
"""How many times as fast something less exact has to be, so that `auto` takes it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that could be computed, and in which precision."""

    precision: Precision
    model: Path


class Speeds(Protocol):
    """What measures candidates on the engine at hand.

    `place` names the engine in a sentence. `supports_half` says whether it computes in 16 bits at all. `obstacle` says
    why it cannot compute in 8 bits as exactly as a file was judged; None where it can.
    """

    @property
    def place(self) -> str: ...
    @property
    def supports_half(self) -> bool: ...
    @property
    def obstacle(self) -> str | None: ...
    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The time for an image of each. Raises ModelError when one cannot be computed."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model to open, the precision that it is computed in, and why.

    `reason` is empty where the file is taken as it is because that was asked for.
    """

    model: ModelSource
    precision: Precision
    reason: str = ""

    def report(self) -> Mapping[str, str]:
        """What the run report says of it: nothing where the file is taken as it is."""
        return {"precision": self.precision, "precision_reason": self.reason} if self.reason else {}


def choose_model(element: ModelElement, *, speeds: Speeds) -> Chosen:
    """What a step computes. Raises ConfigurationError where `precision: int8` finds no file that fits.

    Only `auto` measures, and only where there is something to choose from.
    """
    model = element.model
    if element.precision == "fp32" or isinstance(model, str):
        return Chosen(model, "fp32")
    match element.precision:
        case "int8":
            return _quantized(model, speeds)
        case "fp16" if speeds.supports_half:
            return Chosen(model, "fp16", "asked for")
        case "fp16":
            return Chosen(model, "fp32", f"{speeds.place} computes fp16 as fp32: 16 bits are for GPUs")
    return _fastest(model, speeds)


def precision_problem(element: ModelElement) -> str | None:
    """What is wrong with a step's precision; None when nothing is. Reads files, measures nothing."""
    if element.precision == "fp32":
        return None
    if isinstance(element.model, str):
        return "the model is served: its server decides how exactly it computes; leave precision out"
    if element.precision != "int8":
        return None
    try:
        find_quantized(element.model)
    except ModelError as error:
        return str(error)
    return None


def _quantized(model: Path, speeds: Speeds) -> Chosen:
    try:
        found = find_quantized(model)
    except ModelError as error:
        raise ConfigurationError(f"precision int8: {error}") from error
    doubt = "" if speeds.obstacle is None else f"; {speeds.obstacle}, so results may be worse than that"
    return Chosen(found.path, "int8", f"asked for; {_loss(found)}{doubt}")


def _fastest(model: Path, speeds: Speeds) -> Chosen:
    candidates = [Candidate("fp32", model)]
    if speeds.supports_half:
        candidates.append(Candidate("fp16", model))
    reason = ""
    try:
        found = find_quantized(model)
        reason = _against(found, speeds)
        if not reason:
            candidates.append(Candidate("int8", found.path))
    except ModelError as error:
        reason = str(error)
    if len(candidates) == 1:
        return Chosen(model, "fp32", reason)
    try:
        seconds = speeds.seconds(candidates)
    except ModelError as error:
        return Chosen(model, "fp32", f"it could not be compared: {error}")
    gains = [seconds[0] / one for one in seconds]
    best = max(range(len(gains)), key=gains.__getitem__)
    if gains[best] < LEAST_GAIN:
        return Chosen(model, "fp32", "; ".join(filter(None, [_no_gain(candidates, gains, speeds), reason])))
    winner = candidates[best]
    told = f"{winner.precision} is {gains[best]:.2f} times as fast as fp32 with {speeds.place}"
    loss = _loss(found) if winner.precision == "int8" else reason
    return Chosen(winner.model, winner.precision, "; ".join(filter(None, [told, loss])))


def _against(found: QuantizedFile, speeds: Speeds) -> str:
    """Why a quantised file that fits is not even tried; empty when it is."""
    if not found.note.is_within_budget:
        return f"{found.path}: {_loss(found)}, more than its budget of {found.note.budget_points:g}"
    return speeds.obstacle or ""


def _no_gain(candidates: Sequence[Candidate], gains: Sequence[float], speeds: Speeds) -> str:
    told = ", ".join(
        f"{one.precision} is {gain:.2f} times as fast" for one, gain in zip(candidates[1:], gains[1:], strict=True)
    )
    return f"{told} with {speeds.place}: not worth what it loses"


def _loss(found: QuantizedFile) -> str:
    return f"int8 lost {found.note.lost_points:.2f} points of {found.note.measure}"
