"""Stands for the encoder of PyNvVideoCodec on the double of a GPU: the same calls, and the same traps. FFmpeg encodes.

The traps, as PyNvVideoCodec 2.2.4 has them: an image is read when the encoder's stream comes to it, not before; its
planes must have dense rows, three axes and even sizes; images come out three calls late, with numbers in the place of
timestamps; nothing is said of colours; who asks a GPU without an encoder what it encodes gets an exception; and options
that it does not know are passed over by the real one, and refused here.
"""
# ruff: noqa: N802  the names are PyNvVideoCodec's

from __future__ import annotations

import weakref
from collections.abc import Mapping

from sightline.devices.gpu.gpu import Gpu
from sightline_plugins.encode.nvenc_library import NvencLibrary
from sightline_plugins.testing.nvdec_names import PyNvVCException, PyNvVCExceptionUnsupported
from sightline_plugins.testing.nvenc_encoder import PyNvEncoder
from sightline_plugins.testing.nvenc_names import ADA, NvencCaps, NvencFaults, PicFlags

_NO_FAULTS = NvencFaults()
_OPTIONS = {"codec", "preset", "tuning_info", "rc", "bf", "gop", "fps", "cq", "bitrate", "maxbitrate"}
_ON = "\nat PyNvEncoder.cpp:1103\n"


class NvencDouble:
    """Stands for the module PyNvVideoCodec, with one GPU, which it does not keep alive.

    `caps` is what that GPU encodes.
    """

    NV_ENC_PIC_FLAGS = PicFlags
    PyNvVCException = PyNvVCException
    PyNvVCExceptionUnsupported = PyNvVCExceptionUnsupported

    def __init__(self, gpu: Gpu, *, caps: Mapping[str, NvencCaps] = ADA, faults: NvencFaults = _NO_FAULTS) -> None:
        self._gpu = weakref.ref(gpu)
        self._caps = caps
        self._faults = faults
        self._calls = 0
        self.open: weakref.WeakSet[PyNvEncoder] = weakref.WeakSet()
        """The encoders that there are."""
        self.made: list[dict[str, str | int]] = []
        """The options of every encoder that was made, with its `size` and `format`."""

    @property
    def open_count(self) -> int:
        """How many encoders there are."""
        return len(self.open)

    def GetEncoderCaps(self, gpuid: int = 0, codec: str = "h264") -> dict[str, int]:
        """What the GPU encodes of a codec; nothing for one that there is not."""
        del gpuid
        if not self._caps:
            raise PyNvVCException(
                "PyNvEncoderCaps : \nError code : 2\nError Type : m_nvenc.nvEncOpenEncodeSessionEx"
                f"(&encodeSessionExParams, &hEncoder) returned error 2{_ON}"
            )
        caps = self._caps.get(codec)
        if caps is None:
            return {}
        return {
            "num_encoder_engines": 2,
            "width_min": caps.min_size_wh[0],
            "height_min": caps.min_size_wh[1],
            "width_max": caps.max_size_wh[0],
            "height_max": caps.max_size_wh[1],
        }

    def CreateEncoder(
        self, width: int, height: int, fmt: str, usecpuinputbuffer: bool, **options: str | int
    ) -> PyNvEncoder:
        """An encoder on a stream."""
        gpu = self._gpu()
        assert gpu is not None, "the GPU is gone"
        where = (options.pop("gpu_id"), options.pop("cudacontext"), usecpuinputbuffer)
        assert where == (gpu.index, 0, False), "not our GPU, context or memory"
        assert gpu.guard.cause is None, "making an encoder on a broken GPU ends the process"
        stream = int(options.pop("cudastream"))
        assert set(options) <= _OPTIONS, f"there are no options {set(options) - _OPTIONS}"
        assert options["bf"] == 0, "the double makes no B-frames"
        if fmt not in ("NV12", "YUV420"):
            raise PyNvVCExceptionUnsupported(f"PyNvEncoder : \nError code : 8\nError Type : Unknown format: {fmt}{_ON}")
        if self._faults.is_refused or options["codec"] not in self._caps:
            raise PyNvVCException(
                "PyNvEncoder : \nError code : 10\nError Type : m_nvenc.nvEncOpenEncodeSessionEx"
                f"(&encodeSessionExParams, &hEncoder) returned error 10{_ON}"
            )
        self.made.append({**options, "size": f"{width}x{height}", "format": fmt})
        encoder = PyNvEncoder(
            gpu,
            size_wh=(width, height),
            layout=fmt,
            stream=stream,
            options=options,
            faults=self._faults,
            number_of_call=self._number_of_call,
        )
        self.open.add(encoder)
        return encoder

    def _number_of_call(self) -> int:
        number, self._calls = self._calls, self._calls + 1
        return number


def nvenc_double(gpu: Gpu, *, caps: Mapping[str, NvencCaps] = ADA, faults: NvencFaults = _NO_FAULTS) -> NvencDouble:
    """Let a double of PyNvVideoCodec's encoder take its place on that GPU, which is a double itself."""
    double = NvencDouble(gpu, caps=caps, faults=faults)
    gpu.stand_ins[NvencLibrary] = double
    return double
