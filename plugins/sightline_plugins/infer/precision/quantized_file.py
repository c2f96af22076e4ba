"""The quantised file that belongs to a model: where it lies, what it says of itself, and whether it still fits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import external_files
from sightline_plugins.infer.facts import read_facts

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
