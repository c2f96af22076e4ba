"""Stands for PyNvVideoCodec on the double of a GPU: the same calls, and the same traps. FFmpeg decodes for it.

The traps, as PyNvVideoCodec 2.2.4 has them: the next `Decode` overwrites what the last one gave; rows have no padding;
the first size of a decoder stays, smaller images are scaled to it and larger ones raise; an image comes one packet
late; damaged images are given all the same; interlaced ones are deinterlaced; after an exception a decoder is of no
use; and images are there in the order of the decoder's stream, not before.
"""
# ruff: noqa: N802, N815, SLF001  the names are PyNvVideoCodec's; ctypes hides what it passes by reference

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline_plugins.decode.nvdec_library import NvdecLibrary
from sightline_plugins.testing import nvdec_names as names
from sightline_plugins.testing.nvdec_decoder import PyNvDecoder

_CHROMA = ("400", "420", "422", "444")
_NO_FAULTS = names.NvdecFaults()


class NvdecDouble:
    """Stands for the module PyNvVideoCodec and for libnvcuvid, with one GPU, which it does not keep alive.

    `caps` is what that GPU decodes.
    """

    cudaVideoCodec = names.CudaVideoCodec
    DisplayDecodeLatencyType = names.DisplayDecodeLatencyType
    VideoPacketFlag = names.VideoPacketFlag
    PacketData = names.PacketData
    PyNvVCException = names.PyNvVCException
    PyNvVCExceptionUnsupported = names.PyNvVCExceptionUnsupported

    def __init__(
        self, gpu: Gpu, *, caps: Mapping[str, names.Caps] = names.HOPPER, faults: names.NvdecFaults = _NO_FAULTS
    ) -> None:
        self._gpu = weakref.ref(gpu)
        self._caps = caps
        self._faults = faults
        self._calls = 0
        self._open: weakref.WeakSet[PyNvDecoder] = weakref.WeakSet()
        self.made: list[tuple[str, str]] = []
        """Codec and latency of every decoder that was made."""

    @property
    def open_count(self) -> int:
        """How many decoders there are."""
        return len(self._open)

    def cuvidGetDecoderCaps(self, asked: Any) -> int:
        """What the GPU decodes of a codec, as the driver's own library tells it."""
        told = asked._obj
        caps = self._caps.get(names.CudaVideoCodec(told.codec).name)
        told.engines = 7
        told.is_supported = caps is not None and told.bit_depth_minus_8 + 8 in caps.depths.get(_CHROMA[told.chroma], ())
        if caps is not None:
            (told.min_width, told.min_height), (told.max_width, told.max_height) = caps.min_size_wh, caps.max_size_wh
            told.max_macroblocks = caps.max_macroblocks
        return 0

    def CreateDecoder(
        self,
        *,
        gpuid: int = 0,
        codec: names.CudaVideoCodec = names.CudaVideoCodec.H264,
        cudacontext: int = 0,
        cudastream: int = 0,
        usedevicememory: bool = False,
        latency: names.DisplayDecodeLatencyType = names.DisplayDecodeLatencyType.NATIVE,
    ) -> PyNvDecoder:
        """A decoder on a stream."""
        gpu = self._gpu()
        assert gpu is not None, "the GPU is gone"
        assert (gpu.index, cudacontext, usedevicememory) == (gpuid, 0, True), "not our GPU, context or memory"
        assert gpu.guard.cause is None, "making a decoder on a broken GPU ends the process"
        decoder = PyNvDecoder(
            gpu,
            codec.name,
            caps=self._caps.get(codec.name),
            stream=cudastream,
            is_low=latency is names.DisplayDecodeLatencyType.LOW,
            faults=self._faults,
            number_of_call=self._number_of_call,
        )
        self._open.add(decoder)
        self.made.append((codec.name, latency.name))
        return decoder

    def _number_of_call(self) -> int:
        number, self._calls = self._calls, self._calls + 1
        return number


def nvdec_double(
    gpu: Gpu, *, caps: Mapping[str, names.Caps] = names.HOPPER, faults: names.NvdecFaults = _NO_FAULTS
) -> NvdecDouble:
    """Let a double of PyNvVideoCodec take its place on that GPU, which is a double itself."""
    double = NvdecDouble(gpu, caps=caps, faults=faults)
    gpu.stand_ins[NvdecLibrary] = double
    return double
