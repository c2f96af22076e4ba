"""What a network is given on the GPU: parts of surfaces become its inputs, in memory that stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media.device_array import DeviceArray
from sightline_plugins.infer.engines.protocol import TensorSpec
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.kernels.preprocess import SOURCE, Jobs, pack, preprocess
from sightline_plugins.kernels.surfaces import SurfaceView
from sightline_plugins.kernels.tensor_form import TensorForm
from sightline_plugins.pixels.preprocess import Part

_SPARE_BYTES = 1 << 16


class InputBuffers:
    """The inputs of a model in one set of buffers, for `most_rows` pictures, and what fills them.

    Inputs besides the picture (its size) are the same for every picture, and are written once.
    """

    def __init__(
        self, plan: ModelPlan, *, inputs: Sequence[TensorSpec], most_rows: int, gpu: Gpu, stream: GpuStream
    ) -> None:
        size_wh = plan.preprocessing.size_wh
        assert size_wh is not None
        place = plan.inputs.picture
        self._definition = plan.preprocessing
        self._form = TensorForm("nhwc" if plan.inputs.channels_last else "nchw", inputs[place].dtype)
        self._gpu = gpu
        self._stream = stream
        self._kernels = gpu.kernels(SOURCE)
        shape = self._form.shape(most_rows, channels=self._definition.channels, size_wh=size_wh)
        self._picture = gpu.empty(shape, self._form.dtype, stream=stream)
        arrays = {place: self._picture}
        for number, values in plan.inputs.extra_values(size_wh).items():
            rows = np.tile(np.array(values, inputs[number].dtype), (most_rows, 1))
            array = gpu.empty(rows.shape, rows.dtype, stream=stream)
            [arrays[number]] = gpu.upload_into([rows], [array], stream=stream)
        self.arrays = [arrays[number] for number in range(len(inputs))]
        """All inputs of the model, for the most pictures."""
        self._content = self._new_content(0)

    def take(self, parts: Sequence[Part], *, rows: int) -> tuple[Jobs, bool]:
        """Bring to the GPU what says how these parts become `rows` pictures; whether that moved to other memory.

        The stream waits for the surfaces, which may go when `queue` has returned.
        """
        surfaces = {id(surface): surface for surface, _ in parts}
        views = {}
        for key, surface in surfaces.items():
            there = surface.to_device(self._gpu, stream=self._stream)
            views[key] = SurfaceView.of(there, there.arrays_on(self._stream))
        jobs = pack([(views[id(surface)], placement) for surface, placement in parts], self._definition, rows=rows)
        is_moved = jobs.content.size > self._content.shape[0]
        if is_moved:
            self._content = self._new_content(jobs.content.size)
        self._gpu.upload_into([jobs.content], [self._content_of(jobs)], stream=self._stream)
        return jobs, is_moved

    def queue(self, jobs: Jobs) -> None:
        """Queue the kernel; its arguments are the same for every number of pictures."""
        preprocess(
            self._kernels,
            jobs,
            content=self._content_of(jobs),
            out=self._picture,
            definition=self._definition,
            form=self._form,
            stream=self._stream,
        )

    def _content_of(self, jobs: Jobs) -> DeviceArray:
        return self._content.rows(0, jobs.content.size)

    def _new_content(self, size_bytes: int) -> DeviceArray:
        return self._gpu.empty((2 * size_bytes + _SPARE_BYTES,), np.uint8, stream=self._stream)
