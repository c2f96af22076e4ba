"""Plans of TensorRT-RTX, built ahead of time on a machine without a GPU: which models, how long, how large.

    python -m benchmarks.tensorrt_builds [--model NAME]... [--precision fp32|fp16|int8]... [--target 8.6]...

Without options: this project's models and those of the shared test data, in every precision, for compute capability 8.6
and 8.9, with any number of images up to 32 where the model can be made so. INT8 files are made here, with ONNX
Runtime's quantiser from made-up images: good for building, not for judging results. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from sightline.errors import SightlineError
from sightline_plugins.engines.batch_sizes import ANY_BATCH
from sightline_plugins.engines.cuda_model import prepare
from sightline_plugins.engines.half import sample_feeds
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.protocol import GPU_PRECISIONS, Array, Precision
from sightline_plugins.engines.tensorrt_builder import BuildSettings, build_plan
from sightline_plugins.engines.tensorrt_library import TensorRt, installed
from sightline_plugins.onnx_graph.graph import LEARNED
from sightline_plugins.onnx_graph.inputs import fix_size

REPOSITORY = Path(__file__).resolve().parent.parent
TARGETS = ((8, 6), (8, 9))
_OLDEST_OPSET_OF_CHANNELS = 13
_QUANTISER = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": sorted(LEARNED),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A model: its file, the size of images where it leaves that open, and the levels that it takes."""

    name: str
    is_shared: bool = False
    size_wh: tuple[int, int] | None = None
    input_range: tuple[float, float] = (0.0, 1.0)

    def path(self, shared: Path) -> Path:
        """Where it lies."""
        return (shared if self.is_shared else REPOSITORY) / "models" / f"{self.name}.onnx"


CASES = (
    Case("street"),
    Case("vehicle"),
    Case("plate"),
    Case("plate_text"),
    Case("FastestDet", is_shared=True),
    Case("SqueezeNet_fp16", is_shared=True, input_range=(-2.0, 2.5)),
    Case("deeplab_v3_257", is_shared=True, input_range=(-1.0, 1.0)),
    Case("deimv2_hgnetv2_atto_coco", is_shared=True),
    Case("en_number_mobile_v2.0_rec", is_shared=True, size_wh=(320, 32), input_range=(-1.0, 1.0)),
    Case("osnet_x0_25_msmt17", is_shared=True, input_range=(-2.0, 2.5)),
    Case("yolox_nano", is_shared=True, input_range=(0.0, 255.0)),
    Case("yunet_n_dynamic", is_shared=True, size_wh=(320, 320), input_range=(0.0, 255.0)),
)


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build: seconds to prepare and to compile, the plan's size, and the images that it takes."""

    prepare_seconds: float
    build_seconds: float
    plan_bytes: int
    rows: int | None


def build(library: TensorRt, case: Case, *, shared: Path, precision: Precision, target: tuple[int, int]) -> Built:
    """Build one plan. Raises SightlineError where it is refused."""
    parsed = _read(case, shared)
    if precision == "int8":
        parsed = quantised(parsed, case)
    began = time.perf_counter()
    made = prepare(parsed, precision=precision, input_range=case.input_range, label=case.name)
    prepared = time.perf_counter()
    plan = build_plan(library, made.model, settings=BuildSettings(target, ANY_BATCH), label=case.name)
    return Built(prepared - began, time.perf_counter() - prepared, len(plan), made.rows)


def quantised(model: onnx.ModelProto, case: Case) -> onnx.ModelProto:
    """The model with explicit Q/DQ, calibrated on made-up images."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset < _OLDEST_OPSET_OF_CHANNELS:
        model = onnx.version_converter.convert_version(model, _OLDEST_OPSET_OF_CHANNELS)
    feeds = sample_feeds(model, input_range=case.input_range)
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder, _quiet():
        given, made = Path(folder) / "given.onnx", Path(folder) / "made.onnx"
        onnx.save(model, given)
        quantize_static(
            given,
            made,
            _Feeds(feeds),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=sorted(LEARNED),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options=dict(_QUANTISER),
        )
        return onnx.load(made)


class _Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: Sequence[dict[str, Array]]) -> None:
        self._waiting = iter(feeds)

    def get_next(self) -> dict[str, Array] | None:
        return next(self._waiting, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantiser's hints off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _read(case: Case, shared: Path) -> onnx.ModelProto:
    parsed, _ = read_model(case.path(shared))
    if case.size_wh is not None:
        fix_size(parsed, case.size_wh)
    return parsed


def _row(library: TensorRt, case: Case, *, shared: Path, precision: Precision, target: tuple[int, int]) -> str:
    sm = "{}.{}".format(*target)
    try:
        built = build(library, case, shared=shared, precision=precision, target=target)
    except SightlineError as error:
        return f"| {case.name} | {precision} | {sm} | | | | {error} |"
    rows = f"1..{ANY_BATCH.most}" if built.rows is None else str(built.rows)
    seconds = f"{built.prepare_seconds:.1f} | {built.build_seconds:.1f}"
    return f"| {case.name} | {precision} | {sm} | {seconds} | {built.plan_bytes / 1e6:.1f} | {rows} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tensorrt_builds", description=__doc__)
    names, precisions = [case.name for case in CASES], list(GPU_PRECISIONS)
    targets = ["{}.{}".format(*target) for target in TARGETS]
    parser.add_argument("--model", action="append", choices=names, help="default: all")
    parser.add_argument("--precision", action="append", choices=precisions, help="default: all")
    parser.add_argument("--target", action="append", metavar="M.N", help=f"default: {', '.join(targets)}")
    default = os.environ.get("SIGHTLINE_SHARED_DATA", str(REPOSITORY.parent / "shared" / "data"))
    parser.add_argument("--shared", type=Path, default=Path(default), help="the folder of shared test data")
    return parser


def _target(told: str) -> tuple[int, int]:
    major, _, minor = told.partition(".")
    return int(major), int(minor)


def main(arguments: Sequence[str]) -> None:
    """Build and print."""
    options: Any = _parser().parse_args(arguments)
    library = installed()
    targets = [_target(told) for told in options.target] if options.target else TARGETS
    print(f"{library}\n\n| model | precision | for | prepared, s | built, s | MB | images |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        if (options.model and case.name not in options.model) or not case.path(options.shared).is_file():
            continue
        for precision in options.precision or GPU_PRECISIONS:
            for target in targets:
                row = _row(library, case, shared=options.shared, precision=precision, target=target)
                print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
