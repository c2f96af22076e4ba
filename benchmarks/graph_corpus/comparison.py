"""Compare one file: as engines prepare it, and after each pass alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.graph_passes import copied
from sightline.errors import ModelError
from sightline_plugins.engines.libraries import Library
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.openvino import OpenVino
from sightline_plugins.engines.protocol import Array
from sightline_plugins.engines.rewriting import (
    PAIRINGS,
    Passes,
    difference,
    example_feeds,
    tolerance_of,
)
from sightline_plugins.onnx_graph.constants import is_quantized
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.inputs import find_image_input, fix_batch, take_image
from sightline_plugins.onnx_graph.selection import selects_by_size
from sightline_plugins.onnx_graph.simplify import OPENVINO, Rule, apply_rules, rewrite
from sightline_plugins.preprocess.definition import ImageForm

Results = list[list[Array]]
_LEVELS = ImageForm(mean=(123.7, 116.3, 103.5), scale=(0.0171, 0.0175, 0.0174))
_GREY = ImageForm(mean=(127.5,), scale=(0.0078,))
_BYTES = ImageForm()


@dataclass(slots=True)
class Opened:
    """One file in one library.

    `nodes` after the passes; `largest` difference of any value, nan where the library refuses the file; `left_out`:
    passes, `why`: what differed with them; `itself`: how the library's results for the file itself differ.
    """

    nodes: int = 0
    largest: float = float("nan")
    left_out: tuple[str, ...] = ()
    why: str = ""
    itself: str = ""


@dataclass(slots=True)
class Compared:
    """One file: where passes applied, and what came of it. `alone`: for each pass its largest difference alone."""

    name: str
    family: str
    exporter: str
    precision: str
    nodes: int
    places: Counter[str] = field(default_factory=Counter)
    alone: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    openvino: Opened = field(default_factory=Opened)
    onnxruntime: Opened = field(default_factory=Opened)
    refused: str = ""


def compare(path: Path) -> Compared:
    """Compare one file. Raises ModelError if it cannot be read."""
    model, _ = read_model(path)
    about = {entry.key: entry.value for entry in model.metadata_props}
    found = Compared(
        about.get("architecture", path.stem),
        about.get("family", ""),
        about.get("exporter", ""),
        precision_of(model),
        len(model.graph.node),
    )
    fix_batch(model)
    try:
        reference = Reference(model)
    except ModelError as error:
        found.refused = f"the file is refused: {str(error)[:100]}"
        return found
    found.places = places(model, OPENVINO)
    found.openvino = opened(model, OpenVino(concurrency=1), reference)
    found.onnxruntime = opened(model, OnnxRuntime(concurrency=1), reference)
    for rule in OPENVINO:
        if places(model, (rule,)):
            _judge_alone(found, model, rule, reference)
    found.wrong += [name for one in (found.openvino, found.onnxruntime) for name in one.left_out if not one.itself]
    return found


def precision_of(model: onnx.ModelProto) -> str:
    """What most of a file's numbers are stored as."""
    if is_quantized(model):
        return "int8"
    halves = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)
    return "float16" if halves else "float32"


def opened(model: onnx.ModelProto, library: Library[Any], reference: Reference) -> Opened:
    """What a library computes from the prepared model; which passes the proof leaves out, and why."""
    passes = Passes(copied(model), library=library, image=reference.form, optimize=True)
    prepared, left_out, differs = passes.proven()
    found = Opened(nodes=len(prepared.graph.node), left_out=left_out, itself=differs or "")
    try:
        if left_out:
            found.why = reference.difference(library.compute(passes.applied(), reference.feeds)) or ""
        found.largest = reference.largest(library.compute(prepared, reference.feeds))
    except ModelError as error:
        found.why = str(error)[:100]
    return found


def _judge_alone(found: Compared, model: onnx.ModelProto, rule: Rule, reference: Reference) -> None:
    """Note what one pass does to the results in ONNX Runtime."""
    rewritten = rewrite(copied(model), (rule,))
    if reference.form is not None:
        rewritten = take_image(rewritten, reference.form)
    try:
        results = OnnxRuntime(concurrency=1).compute(rewritten, reference.feeds)
    except ModelError:
        found.alone[rule.__name__] = float("inf")
        found.wrong.append(rule.__name__)
        return
    found.alone[rule.__name__] = reference.largest(results)
    if reference.difference(results) is not None:
        found.wrong.append(rule.__name__)


class Reference:
    """What ONNX Runtime computes from a file with nothing but the form of its image changed. Raises ModelError."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.form = form_of(model)
        file = copied(model) if self.form is None else take_image(copied(model), self.form)
        self.feeds = example_feeds(file, self.form)
        self._names = [output.name for output in file.graph.output]
        self._selects, self._tolerance = selects_by_size(model), tolerance_of(model)
        self._results: Results = OnnxRuntime(concurrency=1).compute(file, self.feeds)

    def difference(self, results: Results) -> str | None:
        """What the proof says of other results."""
        return difference(results, self._results, tolerance=self._tolerance, names=self._names, selects=self._selects)

    def largest(self, results: Results) -> float:
        """The largest difference of any value as a share of the root mean square of its output."""
        shares = [0.0]
        for own, expected in zip(results, self._results, strict=True):
            for one, other in zip(own, expected, strict=True):
                ways = [(one, other), *(pair(one, other) for pair in PAIRINGS if self._selects)]
                shares.append(min(_share(*way) for way in ways))
        return max(shares)


def form_of(model: onnx.ModelProto) -> ImageForm | None:
    """How images are handed over: levels that the graph normalises, bytes as they are, or None without an image."""
    try:
        image = find_image_input(model)
    except ModelError:
        return None
    if image.rows > 1:
        return None
    if image.entry.type.tensor_type.elem_type == onnx.TensorProto.UINT8:
        return _BYTES
    return _LEVELS if image.channels == 3 else _GREY


def _share(found: Array, expected: Array) -> float:
    if found.shape != expected.shape:
        return float("inf")
    if not found.size:
        return 0.0
    own, wanted = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    size = float(np.sqrt(np.mean(wanted[finite] ** 2))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        off = np.where(own == wanted, 0.0, np.abs(own - wanted))
    return float(np.nan_to_num(off, nan=np.inf).max()) / max(size, 1e-3)


def places(model: onnx.ModelProto, rules: Sequence[Rule]) -> Counter[str]:
    """At how many places each rule changes a model when all are applied until none finds anything more."""
    found: Counter[str] = Counter()

    def counting(rule: Rule) -> Rule:
        def counted(graph: Graph) -> int:
            changed = rule(graph)
            found[rule.__name__] += changed
            return changed

        return counted

    apply_rules(Graph(copied(model)), [counting(rule) for rule in rules])
    return +found
