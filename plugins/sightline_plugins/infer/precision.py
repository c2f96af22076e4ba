"""Choose the precision that a model runs at, and find the quantised file beside it (`street.int8.onnx`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from sightline.cache import cache_folder
from sightline.errors import ConfigurationError, CudaError, CudaFailed, ModelError
from sightline_plugins.engines.address import ModelSource
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.infer.options import ModelElement

NOTE_KEY = "sightline.quantized"
"""The metadata entry of a quantised file that holds its note, as JSON."""
SUFFIX = ".int8.onnx"
LEAST_AGREEMENT = 0.98
"""Share of results that have to be those of float32 for `auto` to choose 16 bits: the budget of two points that
`sightline quantize` has."""
MIN_GAIN = 1.05
"""How many times as fast a less exact precision has to be for `auto` to choose it."""


@dataclass(frozen=True, slots=True)
class QuantizedNote:
    """The note of `sightline quantize` in a file.

    `source_sha256` is the digest (`file_digest`) of the model that it was made from. `lost_points` are the points of
    `measure` (0..100) that it lost against that model on the evaluated images, of at most `budget_points`.
    """

    source_sha256: str
    measure: str
    lost_points: float
    budget_points: float

    @property
    def is_within_budget(self) -> bool:
        """Whether it lost no more than its budget."""
        return self.lost_points <= self.budget_points


@dataclass(frozen=True, slots=True)
class QuantizedFile:
    """A quantised file that fits its model."""

    path: Path
    note: QuantizedNote


def quantized_path(model: Path) -> Path:
    """Return the path of a model's quantised file: `street.int8.onnx` beside `street.onnx`."""
    return model.with_suffix(SUFFIX)


def how_to_make(model: Path) -> str:
    """Return the command that makes the quantised file."""
    return f"sightline quantize {model} --frames CLIP"


def find_quantized(model: Path) -> QuantizedFile:
    """Return the quantised file beside a model. Raises ModelError with the command to make it where none fits."""
    path = quantized_path(model)
    if not path.is_file():
        if is_quantized(model):
            raise ModelError(f"{model} is quantised already, and runs as it is: leave precision out")
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
    """Return whether `sightline quantize` wrote a file."""
    try:
        return read_note(path) is not None
    except ModelError:
        return False


def read_note(path: Path) -> QuantizedNote | None:
    """Return the note of a file; None for one that `sightline quantize` did not write. Raises ModelError."""
    text = read_facts(path).metadata.get(NOTE_KEY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text.encode(), type=QuantizedNote)
    except msgspec.DecodeError as error:
        raise ModelError(f"model {str(path)!r}: its entry {NOTE_KEY!r} is damaged: {error}") from error


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a model's file, in hexadecimal; with external weights, that of all files' digests.

    Raises ModelError when one of them cannot be read, or is no ONNX file.
    """
    try:
        files = (path, *(path.parent / name for name in read_facts(path).weights))
        digests = [_digest(file, _stamp(file)) for file in files]
    except OSError as error:
        raise ModelError(f"model {str(path)!r}: cannot be read: {error.strerror}") from error
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=64)
def _digest(path: Path, stamp: tuple[int, ...]) -> str:
    del stamp
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that could run, and its precision."""

    precision: Precision
    model: Path


class Speeds(Protocol):
    """Measures candidates on the engine at hand.

    `place` names the engine and its device, `computes` identifies them with their versions. `supports_half` is false
    where the engine computes FP16 as FP32. `no_bfloat16` is the reason why bfloat16 is not computed natively; None
    where it is. `obstacle` is the reason why it computes INT8 less exactly than when the file was evaluated; None where
    it does not.
    """

    @property
    def place(self) -> str: ...
    @property
    def computes(self) -> Mapping[str, Any]: ...
    @property
    def supports_half(self) -> bool: ...
    @property
    def no_bfloat16(self) -> str | None: ...
    @property
    def obstacle(self) -> str | None: ...
    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Return the time per image of each, in seconds. Raises ModelError or CudaError when one cannot run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The share (0..1) of results that agree with those of float32; None where `reason` says why it is not known."""

    agreement: float | None
    reason: str = ""


class Judge(Protocol):
    """Compares the results of a model in 16 bits with those in float32."""

    def obstacle(self, precision: Precision) -> str | None:
        """Return why there can be no verdict on a precision; None where there can. Computes nothing."""

    def __call__(self, precision: Precision) -> Verdict:
        """Return the verdict on a precision. Raises ModelError or CudaError."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The file to open, its precision, and the reason; no reason where the file runs as it is by default."""

    model: ModelSource
    precision: Precision
    reason: str = ""

    def report(self) -> Mapping[str, str]:
        """Return its part of the run report: nothing where the file runs as it is."""
        return {"precision": self.precision, "precision_reason": self.reason} if self.reason else {}


def choose_model(element: ModelElement, *, speeds: Speeds, judge: Judge) -> Chosen:
    """Return what an element runs. Raises ConfigurationError where `precision: int8` finds no file that fits.

    Only `auto` measures, and only where there is something to choose from. `judge` is asked only about a precision that
    is the fastest. Nobody waits for measurements unasked when they cannot be kept.
    """
    model, wanted = element.model, element.wanted_precision
    if wanted == "fp32" or isinstance(model, str) or (not element.has_precision and cache_folder() is None):
        return Chosen(model, "fp32")
    match wanted:
        case "int8":
            return _quantized(model, speeds)
        case "bf16":
            reason = speeds.no_bfloat16
            return Chosen(model, "bf16", "asked for") if reason is None else Chosen(model, "fp32", reason)
        case "fp16" if speeds.supports_half:
            return Chosen(model, "fp16", "asked for")
        case "fp16":
            return Chosen(model, "fp32", f"{speeds.place} computes fp16 as fp32: 16 bits are for GPUs")
    chosen = _fastest(model, speeds, judge, asked=element.has_precision)
    has_choice = chosen.precision != "fp32" or speeds.supports_half or speeds.no_bfloat16 is None
    return chosen if element.has_precision or has_choice else replace(chosen, reason="")


def precision_problem(element: ModelElement) -> str | None:
    """Return what is wrong with an element's precision, None if nothing. Reads files, measures nothing."""
    try:
        wanted = element.wanted_precision
    except ConfigurationError as error:
        return str(error)
    if wanted != "fp32" and isinstance(element.model, str) and "precision" in element.model_fields_set:
        return "the model is served, and its server decides the precision: leave precision out"
    if wanted != "int8" or isinstance(element.model, str):
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
    caveat = "" if speeds.obstacle is None else f"; {speeds.obstacle}, so results may be worse than that"
    return Chosen(found.path, "int8", f"asked for; {_loss(found)}{caveat}")


def _fastest(model: Path, speeds: Speeds, judge: Judge, *, asked: bool) -> Chosen:
    """Return the fastest of the precisions that gains enough and is good enough, with the reasons against the others.

    That there is no quantised file is a reason only where a precision was asked for.
    """
    gains, against = [], []
    for candidate, note, obstacle in _options(model, speeds, judge, asked=asked):
        if candidate is None:
            against.append(obstacle)
            continue
        try:
            exact, own = speeds.seconds([Candidate("fp32", model), candidate])
        except CudaFailed:
            raise
        except (ModelError, CudaError) as error:
            against.append(f"{candidate.precision} could not be compared: {error}")
        else:
            gains.append((exact / own, candidate, note))
    reasons = []
    for gain, candidate, note in sorted(gains, key=lambda entry: entry[0], reverse=True):
        if gain < MIN_GAIN:
            reasons.append(f"{candidate.precision} is {gain:.2f} times as fast with {speeds.place}: not worth it")
            continue
        faster = f"{candidate.precision} is {gain:.2f} times as fast as fp32 with {speeds.place}"
        is_good, verdict = (True, note) if candidate.precision == "int8" else _judged(judge, candidate.precision)
        if is_good:
            return Chosen(candidate.model, candidate.precision, f"{faster}; {verdict}")
        reasons.append(f"{faster}, but {verdict}")
    return Chosen(model, "fp32", "; ".join(filter(None, [*reasons, *against])))


def _options(model: Path, speeds: Speeds, judge: Judge, *, asked: bool) -> Iterator[tuple[Candidate | None, str, str]]:
    """Yield each candidate besides fp32 with what is known of it, or None with the reason against it."""
    precisions: tuple[tuple[Precision, bool], ...]
    precisions = ("fp16", speeds.supports_half), ("bf16", speeds.no_bfloat16 is None)
    for precision in [precision for precision, is_computed in precisions if is_computed]:
        obstacle = judge.obstacle(precision)
        if obstacle is None:
            yield Candidate(precision, model), "", ""
        else:
            yield None, "", f"{precision} was not judged: {obstacle}"
    try:
        found = find_quantized(model)
    except ModelError as error:
        yield None, "", str(error) if asked else ""
        return
    rejection = _rejection(found, speeds)
    yield (None, "", rejection) if rejection else (Candidate("int8", found.path), _loss(found), "")


def _judged(judge: Judge, precision: Precision) -> tuple[bool, str]:
    """Return whether a precision may be chosen, and why."""
    try:
        verdict = judge(precision)
    except CudaFailed:
        raise
    except (ModelError, CudaError) as error:
        return False, f"was not judged: {error}"
    if verdict.agreement is None:
        return False, f"was not judged: {verdict.reason}"
    text = f"{verdict.agreement:.1%} of its results agree with those of fp32"
    if verdict.agreement < LEAST_AGREEMENT:
        return False, f"{text}, and {LEAST_AGREEMENT:.0%} have to"
    return True, text


def _rejection(found: QuantizedFile, speeds: Speeds) -> str:
    """Return why a quantised file that fits is not measured; empty when it is."""
    if not found.note.is_within_budget:
        return f"{found.path}: {_loss(found)}, more than its budget of {found.note.budget_points:g}"
    return speeds.obstacle or ""


def _loss(found: QuantizedFile) -> str:
    return f"int8 lost {found.note.lost_points:.2f} points of {found.note.measure}"
