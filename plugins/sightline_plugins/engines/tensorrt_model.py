"""From an ONNX file to a model on a GPU: read, prepared, compiled or taken from the cache, loaded.

In one go (`open_tensorrt`), or in parts, for who compiles in the background while something else serves:

    model = TensorRtModel(path, gpu=gpu, precision="fp16", size_wh=(640, 640))    # reads it: milliseconds
    if not model.is_kept:
        model.compile(progress=print)                                             # any thread; minutes
    engine = model.load(stream=stream)                                            # a second
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import ModelError
from sightline.media.device_array import DeviceStream
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange
from sightline_plugins.engines.cache import Entry, ModelCache, models_folder
from sightline_plugins.engines.cuda_model import prepare
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.model_file import content_digest, read_model
from sightline_plugins.engines.protocol import Precision, never, say_nothing
from sightline_plugins.engines.tensorrt import TensorRtEngine, load_plan
from sightline_plugins.engines.tensorrt_builder import BuildSettings, build_plan
from sightline_plugins.engines.tensorrt_library import KeptKernels, Log, Tell, library_for
from sightline_plugins.onnx_graph.inputs import find_image_input, fix_size

UNIT = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A compiled model: the library's plan, the number of images that it takes (None: any), whether it was kept."""

    content: bytes
    rows: int | None
    was_kept: bool


class TensorRtModel:
    """A model for one GPU, which may be compiled in any thread; `load` it where it is used.

    Raises ModelError (missing or damaged model, wrong size), MissingExtra without the library, DeviceUnavailable where
    it does not load or does not support the GPU. `label` names the model in messages.
    """

    def __init__(
        self,
        model: str | Path | bytes,
        *,
        gpu: CudaDevice,
        precision: Precision = "fp32",
        size_wh: tuple[int, int] | None = None,
        batches: BatchRange = ANY_BATCH,
        input_range: tuple[float, float] = UNIT,
        is_stopped: Callable[[], bool] = never,
        warn: Tell = say_nothing,
    ) -> None:
        """Read it and find the library.

        `size_wh` fixes the size of the images where the model leaves it open, `batches` are the batch sizes that it
        is compiled for, where it takes any number. `input_range` are the values that the image input takes, from the
        darkest to the brightest: for FP16 alone, whose numbers end at 65504. Where `is_stopped` says so, compiling ends
        soon, with a ModelError. `warn` receives trouble with the cache.
        """
        self._gpu = gpu
        self._library = library_for(gpu)
        self._warn = warn
        self._parsed, self.label = read_model(model)
        digest = content_digest(self._parsed)
        self._size_wh = _fixed(self._parsed, size_wh, label=self.label)
        self._precision: Precision = precision
        self._input_range = input_range
        capability = gpu.compute_capability if self._library.compiles_ahead else None
        self._settings = BuildSettings(capability, batches)
        self._key = self._key_of(digest)
        self._cache = ModelCache(models_folder(), warn=warn, for_processor=False)
        self._plan: _Plan | None = None
        self._is_stopped = is_stopped

    @property
    def is_kept(self) -> bool:
        """Whether it was compiled before, so that `load` takes no longer than that."""
        return self._plan is not None or self._cache.holds(self._key)

    def compile(self, *, progress: Tell = say_nothing, log: Log | None = None) -> None:
        """Compile it, or take it from the cache; nothing when that was done.

        In any thread, one at a time, while the GPU does other work; `progress` hears how far it is, `log` all that
        the library says, both from any thread. Raises ModelError with the reason for a refusal, CudaError.
        """
        if self._plan is None:
            self._plan = self._obtained(progress, log)

    def load(self, *, stream: DeviceStream, progress: Tell = say_nothing, log: Log | None = None) -> TensorRtEngine:
        """The engine, which computes on that stream; compiles before where that was not done.

        A plan from the cache that the library refuses is compiled again. Raises ModelError, CudaError.
        """
        self.compile(progress=progress, log=log)
        plan = self._plan
        assert plan is not None
        try:
            return self._opened(plan, stream)
        except ModelError as error:
            if not plan.was_kept:
                raise
            self._warn(f"{self.label}: the compiled model in the cache is of no use and is made again: {error}")
        self._plan = self._made(progress, log)
        self._cache.keep(self._key, _entry(self._plan))
        return self._opened(self._plan, stream)

    def _obtained(self, progress: Tell, log: Log | None) -> _Plan:
        plan, _ = self._cache.obtain(
            self._key,
            load=lambda entry: _Plan(entry.content, entry.notes["rows"], was_kept=True),
            make=lambda: self._made(progress, log),
            dump=_entry,
        )
        return plan

    def _made(self, progress: Tell, log: Log | None) -> _Plan:
        self._gpu.hold()
        try:
            model = onnx.ModelProto()
            model.CopyFrom(self._parsed)
            prepared = prepare(model, precision=self._precision, input_range=self._input_range, label=self.label)
            with self._gpu.guard(f"compiling {self.label}"):
                content = build_plan(
                    self._library,
                    prepared.model,
                    settings=self._settings,
                    label=self.label,
                    progress=progress,
                    log=log,
                    is_stopped=self._is_stopped,
                )
        finally:
            self._gpu.let_go()
        return _Plan(content, prepared.rows, was_kept=False)

    def _opened(self, plan: _Plan, stream: DeviceStream) -> TensorRtEngine:
        with self._gpu.guard(f"loading {self.label}"):
            kernels = KeptKernels(self._cache, {**self._key, "gpu": self._gpu.name})
            loaded = load_plan(self._library, plan.content, label=self.label, kernels=kernels)
        report = {
            "engine": TensorRtEngine.name,
            "library": str(self._library),
            "model": "cached" if plan.was_kept else "compiled",
            "precision": self._precision,
        }
        most_rows = self._settings.batches.most if plan.rows is None else plan.rows
        if plan.rows is None:
            report["batch"] = f"1 to {most_rows}, tuned for {self._settings.batches.usual}"
        else:
            report["batch"] = f"fixed {plan.rows}"
        about = replace(About.of(self._parsed, label=self.label), report=MappingProxyType(report))
        return TensorRtEngine(loaded, gpu=self._gpu, stream=stream, about=about, most_rows=most_rows)

    def _key_of(self, digest: str) -> Mapping[str, Any]:
        """Everything that a plan depends on. A GPU's name counts where the library compiles on the GPU itself."""
        return {
            "model": digest,
            "size_wh": self._size_wh,
            "precision": self._precision,
            "input_range": self._input_range if self._precision == "fp16" else None,
            "engine": self._library.title,
            "version": self._library.version,
            "gpu": None if self._library.compiles_ahead else (self._gpu.name, self._gpu.compute_capability),
            "settings": dict(self._settings.key),
        }


def open_tensorrt(
    model: str | Path | bytes,
    *,
    gpu: CudaDevice,
    stream: DeviceStream,
    precision: Precision = "fp32",
    size_wh: tuple[int, int] | None = None,
    batches: BatchRange = ANY_BATCH,
    input_range: tuple[float, float] = UNIT,
    progress: Tell = say_nothing,
    log: Log | None = None,
    warn: Tell = say_nothing,
) -> TensorRtEngine:
    """A model on a GPU, on one of its streams: a `CudaEngine`. See `TensorRtModel` for what it takes and raises."""
    opened = TensorRtModel(
        model,
        gpu=gpu,
        precision=precision,
        size_wh=size_wh,
        batches=batches,
        input_range=input_range,
        warn=warn,
    )
    return opened.load(stream=stream, progress=progress, log=log)


def _entry(plan: _Plan) -> Entry:
    return Entry(plan.content, {"rows": plan.rows})


def _fixed(parsed: onnx.ModelProto, size_wh: tuple[int, int] | None, *, label: str) -> tuple[int, int] | None:
    """Fix the size of the images; returns it, None for models without images."""
    try:
        if size_wh is not None:
            fix_size(parsed, size_wh)
            return size_wh
        image = find_image_input(parsed)
    except ModelError as error:
        if size_wh is None:
            return None
        raise ModelError(f"{label}: {error}") from error
    sizes = image.entry.type.tensor_type.shape.dim
    height, width = (sizes[axis].dim_value for axis in (image.height_axis, image.height_axis + 1))
    return (width, height) if width and height else None
