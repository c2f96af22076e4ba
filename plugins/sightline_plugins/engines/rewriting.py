"""Prepare a model for a library on the CPU, and prove by computing it that its results are still those of the file.

No rewriting is trusted: the prepared model and the file, with nothing but the image input changed, compute the same
images. When they differ, the passes that are to blame are left out. When the library computes the file itself in
another way than ONNX Runtime does, no rewriting helps: the model is reported as one that needs `engine: onnxruntime`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.libraries import Library
from sightline_plugins.engines.protocol import Array
from sightline_plugins.engines.rebatching import make_single, random_feeds
from sightline_plugins.onnx_graph.constants import is_quantized, store_unsigned
from sightline_plugins.onnx_graph.inputs import find_image_input, fix_batch, fix_size, take_image
from sightline_plugins.onnx_graph.selection import chosen_from, selects_by_size, with_outputs
from sightline_plugins.onnx_graph.simplify import CLEANING, COMMON, OPENVINO, REPAIRS, Rule, rewrite
from sightline_plugins.preprocess.definition import ImageForm

_TOLERANCE = 1e-3
"""Largest difference of an output, as a share of its root mean square, for float32."""
_HALF_TOLERANCE = 3e-2
_QUANTIZED_TOLERANCE = 0.25
_SMALLEST = 1e-3
"""Outputs smaller than this are compared as if they had this size: rounding makes up much of a score near zero."""
_FEW_ROWS = 3
_MOST_ROWS = 1000
_UNSIGNED = "store_unsigned"
_FAILURES = (onnx.shape_inference.InferenceError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""What a pass may raise on a graph that it was not written for."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model as it is compiled: how many images it takes a call, and how many it was exported for.

    `left_out` names passes that would have changed the results. `differs` says how the library's own results differ
    from ONNX Runtime's; None when they agree.
    """

    model: onnx.ModelProto
    rows: int
    exported_rows: int
    left_out: tuple[str, ...] = ()
    differs: str | None = None

    @property
    def batch(self) -> str | None:
        """What the run report says of a batch that was not 1; None when it was."""
        return None if self.exported_rows == 1 else f"1 instead of {self.exported_rows}"


def prepare(
    parsed: onnx.ModelProto, *, library: Library[Any], image: ImageForm | None, optimize: bool, label: str
) -> Prepared:
    """Return the model at batch 1, rewritten for `library`, taking images in the form `image`. `parsed` may change.

    A model whose fixed batch cannot be made 1 keeps it. Raises ModelError.
    """
    try:
        fix_batch(parsed)
        rows = exported_rows = 1
        if image is not None:
            if image.size_wh is not None:
                fix_size(parsed, image.size_wh)
            rows = exported_rows = find_image_input(parsed).rows
        if rows > 1:
            parsed, rows = _single(parsed, library=library, rows=rows)
        passes = Passes(parsed, library=library, image=image, optimize=optimize)
        model, left_out, differs = passes.proven()
        return Prepared(model, rows, exported_rows, left_out, differs)
    except (ModelError, onnx.shape_inference.InferenceError) as error:
        raise ModelError(f"{label}: {error}") from error


def _single(parsed: onnx.ModelProto, *, library: Library[Any], rows: int) -> tuple[onnx.ModelProto, int]:
    """The model for one image a call, and how many it takes now: all of them where it cannot be changed."""
    try:
        return make_single(parsed, compute=library.compute), 1
    except ModelError:
        return parsed, rows


class Passes:
    """The passes that prepare one model for one library."""

    def __init__(
        self, parsed: onnx.ModelProto, *, library: Library[Any], image: ImageForm | None, optimize: bool
    ) -> None:
        self._parsed = parsed
        self._library = library
        self._image = image
        is_openvino = library.name == "openvino"
        self._rules: tuple[Rule, ...] = OPENVINO if is_openvino else COMMON
        if not optimize:
            self._rules = REPAIRS if is_openvino else ()
        self._cleaning = CLEANING if image is not None else ()
        self._stores_unsigned = optimize and str(library.settings["device"]).lower() == "cpu"
        self._selects = selects_by_size(parsed)
        self._probes: dict[str, int] = {}
        self._tolerance = tolerance_of(parsed)
        self._feeds: list[dict[str, Array]] = []
        self._expected: list[list[Array]] | None = None

    def proven(self) -> tuple[onnx.ModelProto, tuple[str, ...], str | None]:
        """Return the prepared model, the names of the passes that were left out, and how the library differs."""
        self._feeds = example_feeds(self._file(), self._image)
        if self._selects:
            with suppress(*_FAILURES):
                self._probes = chosen_from(self._parsed)
        self._expected = self._reference()
        if self._expected is None and self._probes:
            self._probes = {}
            self._expected = self._reference()
        model, worst = self._attempt(frozenset())
        if model is not None and worst is None:
            return model, (), None
        left_out = self._culprits()
        if left_out is None:
            return self.applied(left_out=frozenset(self._names)), tuple(self._names), worst
        return self.applied(left_out=left_out), tuple(sorted(left_out)), None

    def applied(self, *, left_out: frozenset[str] = frozenset(), probed: bool = False) -> onnx.ModelProto:
        """Return the model after all passes but these; `probed`: with what values are chosen from as more outputs."""
        model = with_outputs(_copy(self._parsed), self._probes if probed else {})
        rules = [rule for rule in self._rules if rule.__name__ not in left_out]
        if rules:
            model = rewrite(model, rules)
        if self._image is not None:
            cleaning = [rule for rule in self._cleaning if rule.__name__ not in left_out]
            model = rewrite(take_image(model, self._image), cleaning)
        if self._stores_unsigned and _UNSIGNED not in left_out:
            model = store_unsigned(model)
        return model

    @property
    def _names(self) -> list[str]:
        names = dict.fromkeys(rule.__name__ for rule in (*self._rules, *self._cleaning))
        return [*names, _UNSIGNED] if self._stores_unsigned else [*names]

    def _file(self) -> onnx.ModelProto:
        """The model as the file has it, but for the form of the image, with what values are chosen from."""
        model = with_outputs(_copy(self._parsed), self._probes)
        return model if self._image is None else take_image(model, self._image)

    def _reference(self) -> list[list[Array]] | None:
        """What the file computes in ONNX Runtime or, where that is not possible, in the library; None in neither."""
        computes = [self._library.compute]
        if self._library.name != "onnxruntime" and importlib.util.find_spec("onnxruntime") is not None:
            from sightline_plugins.engines.onnxruntime import OnnxRuntime

            computes.insert(0, OnnxRuntime(concurrency=1).compute)
        for compute in computes:
            with suppress(ModelError):
                return compute(self._file(), self._feeds)
        return None

    def _attempt(self, left_out: frozenset[str]) -> tuple[onnx.ModelProto | None, str | None]:
        """The model after all passes but these, None where one fails, and how its results differ from the reference:
        None when they agree, or there is no reference.
        """
        try:
            model = self.applied(left_out=left_out)
            probed = self.applied(left_out=left_out, probed=True) if self._probes else None
        except (ModelError, *_FAILURES) as error:
            return None, str(error)
        if self._expected is None:
            return model, None
        try:
            differs = self._compared(self._library.compute(model, self._feeds))
            if differs is None and probed is not None:
                differs = self._compared(self._library.compute(probed, self._feeds))
        except ModelError as error:
            return model, str(error)
        return model, differs

    def _compared(self, found: Sequence[Sequence[Array]]) -> str | None:
        """How results differ from the reference: of the outputs, and of what values are chosen from where it is there.

        Behind a choice, a few rows may be exchanged; in front of it, only rounding is no difference.
        """
        names = [output.name for output in self._parsed.graph.output]
        count, expected = len(names), self._expected or []
        outputs, wanted = [one[:count] for one in found], [one[:count] for one in expected]
        differs = difference(outputs, wanted, tolerance=self._tolerance, names=names, selects=self._selects)
        probes = [one[count:] for one in found]
        if differs is not None or not any(probes):
            return differs
        wanted = [one[count:] for one in expected]
        return difference(probes, wanted, tolerance=self._tolerance, names=[*self._probes])

    def _helps(self, left_out: frozenset[str]) -> bool:
        """Whether the results are right without these passes."""
        model, differs = self._attempt(left_out)
        return model is not None and differs is None

    def _culprits(self) -> frozenset[str] | None:
        """The passes to leave out for right results, one if that is enough; None when leaving out all does not help.

        The last ones are tried first: leaving out a pass also leaves out those that build on it.
        """
        names = frozenset(self._names)
        for name in self._names[::-1]:
            if self._helps(frozenset((name,))):
                return frozenset((name,))
        if not self._helps(names):
            return None
        left_out = names
        for name in self._names:
            if self._helps(left_out - {name}):
                left_out = left_out - {name}
        return left_out


def tolerance_of(model: onnx.ModelProto) -> float:
    """The largest difference of an output, as a share of its root mean square, at the precision of a model's file."""
    if is_quantized(model):
        return _QUANTIZED_TOLERANCE
    halves = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)
    return _HALF_TOLERANCE if halves else _TOLERANCE


def example_feeds(model: onnx.ModelProto, image: ImageForm | None) -> list[dict[str, Array]]:
    """Return two sets of inputs: noise, and images with smooth areas and edges, as photographs have."""
    noise = random_feeds(model, rows=1, old=1)
    smooth = dict(noise)
    if image is not None:
        entry = find_image_input(model).entry
        for feeds in (noise, smooth):
            feeds[entry.name] = _levels(noise[entry.name], image, smooth=feeds is smooth)
    return [noise, smooth]


def _levels(like: Array, image: ImageForm, *, smooth: bool) -> Array:
    """Pixels from 0 to 255 in the shape and the type of `like`."""
    if not smooth:
        return np.random.default_rng(1).integers(0, 256, like.shape).astype(like.dtype)
    channels = 3 if image.layout == "nhwc" else 1
    height, width = (size for axis, size in enumerate(like.shape) if axis not in (0, channels))
    rows, columns = np.mgrid[0:height, 0:width]
    pattern = 96 + 64 * np.sin(rows / 17) * np.cos(columns / 23) + 64 * ((rows // 32 + columns // 48) % 2)
    planes = [np.roll(pattern, 11 * channel, axis=1) for channel in range(like.shape[channels])]
    levels: Array = np.clip(np.stack(planes, axis=channels - 1)[None], 0, 255).astype(like.dtype)
    return levels


def difference(
    found: Sequence[Sequence[Array]],
    expected: Sequence[Sequence[Array]],
    *,
    tolerance: float,
    names: Sequence[str],
    selects: bool = False,
) -> str | None:
    """Say how results differ, as lists of outputs for each set of inputs; None when they agree but for rounding.

    `selects`: the model picks values by size (top k, suppression), so that rounding may change the order of rows, or
    add, remove and exchange a few: rows are then compared in other pairs too (`PAIRINGS`).
    """
    for one, other in zip(found, expected, strict=True):
        for name, own, wanted in zip(names, one, other, strict=True):
            share = _deviation(own, wanted)
            if share > tolerance and selects:
                share = min(_deviation(*pair(own, wanted)) for pair in PAIRINGS)
            if share > tolerance:
                return f"output {name!r} is off by {share:.0%} of its size"
    return None


def _deviation(found: Array, expected: Array) -> float:
    """The root mean square of the difference as a share of that of the expected values; for whole numbers the share of
    different ones.
    """
    if found.shape != expected.shape:
        return 1.0
    if not found.size:
        return 0.0
    if found.dtype.kind not in "fc":
        return float(np.mean(found != expected))
    own, wanted = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(own) & np.isfinite(wanted)
    strange = np.mean(np.isfinite(own) != np.isfinite(wanted))
    size = np.sqrt(np.mean(wanted[finite] ** 2)) if finite.any() else 0.0
    error = np.sqrt(np.mean((own[finite] - wanted[finite]) ** 2)) if finite.any() else 0.0
    return max(float(strange), float(error / max(size, _SMALLEST)))


def in_order(found: Array, expected: Array) -> tuple[Array, Array]:
    """Two outputs of a selection with the rows that both have, each column in order of size, the largest first.

    They are returned as they are when one has many rows more than the other.
    """
    if found.ndim != expected.ndim or found.ndim == 0 or found.shape[-1] != expected.shape[-1]:
        return found, expected
    sides = [np.sort(side.reshape(-1, side.shape[-1]), axis=0)[::-1] for side in (found, expected)]
    rows = min(len(side) for side in sides)
    few = max(len(side) for side in sides) - rows <= max(_FEW_ROWS, rows // 10)
    return (sides[0][:rows], sides[1][:rows]) if few else (found, expected)


def in_pairs(found: Array, expected: Array) -> tuple[Array, Array]:
    """Two outputs of the same shape with each row beside the most similar one of the other output.

    A few rows that have none are left out: where values are nearly equal, rounding decides which are among the best.
    They are returned as they are when they have very many rows.
    """
    if found.shape != expected.shape or found.ndim == 0:
        return found, expected
    width = 1 if found.dtype.kind in "iu" and found.size == found.shape[-1] else found.shape[-1]
    own, wanted = (side.reshape(-1, width).astype(np.float64) for side in (found, expected))
    if not 1 < len(own) <= _MOST_ROWS:
        return found, expected
    far = np.zeros((len(own), len(wanted)))
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.maximum(np.sqrt(np.mean(wanted**2, axis=0)), _SMALLEST)
        for one, other, size in zip(own.T, wanted.T, sizes, strict=True):
            far = np.maximum(far, np.nan_to_num(np.abs(one[:, None] - other) / size, nan=np.inf))
    kept = len(own) - max(min(_FEW_ROWS, len(own) // 5), len(own) // 10)
    here, there = (np.argsort(far.min(axis=axis), kind="stable")[:kept] for axis in (1, 0))
    pairs = np.concatenate([own[here], own[far.argmin(axis=0)[there]]])
    return pairs, np.concatenate([wanted[far.argmin(axis=1)[here]], wanted[there]])


PAIRINGS = (in_order, in_pairs)
"""Ways to put the rows of two outputs beside each other where a model selects them by size."""


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied
