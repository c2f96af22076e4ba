"""Which encoder a video gets: the GPU's where it has one and the images lie in its memory, else the CPU's."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, TypeAlias

from sightline.devices.gpu.gpu import Gpu
from sightline.errors import DeviceUnavailable
from sightline.media import Memory, Surface
from sightline_plugins.encode.cpu_encoder import CpuEncoder
from sightline_plugins.encode.encoders import EncoderError, ImageEncoder
from sightline_plugins.encode.muxer import Muxer
from sightline_plugins.encode.nvenc.choosing import reason_against
from sightline_plugins.encode.nvenc.encoder import NvencEncoder
from sightline_plugins.encode.nvenc.library import NvencLibrary, library_for
from sightline_plugins.encode.settings import EncoderSettings

EncoderName: TypeAlias = Literal["auto", "cpu", "nvenc"]


class Encoders:
    """Opens the encoders of one step; for one thread at a time.

    `auto` is the GPU's encoder for images in its memory, where it has one that can; `nvenc` is the GPU's for all, and
    what speaks against that is an error.
    """

    def __init__(self, wanted: EncoderName, *, settings: EncoderSettings, gpu: Gpu | None) -> None:
        """Raises DeviceUnavailable for `nvenc` where there is no such encoder."""
        self.settings = settings
        self._wanted = wanted
        self._gpu = gpu
        if wanted == "nvenc" and isinstance(library := self._library, str):
            raise DeviceUnavailable(f"encoder: nvenc cannot be used: {library}; write encoder: auto")

    def open(self, muxer: Muxer, *, first: Surface) -> ImageEncoder:
        """An encoder for images like this one, its stream added to the container. Raises EncoderError."""
        reason = self._reason_against(first)
        if reason is None:
            try:
                return self._opened(muxer, first)
            except EncoderError as error:
                reason = f"NVENC: {error}"
        if self._wanted == "nvenc":
            raise EncoderError(f"{reason}; write encoder: auto")
        return CpuEncoder(muxer, first=first, settings=self.settings, reason=reason)

    @cached_property
    def _library(self) -> NvencLibrary | str:
        """The GPU's encoder, or why there is none."""
        if self._gpu is None:
            return "this run has no GPU"
        try:
            return library_for(self._gpu)
        except EncoderError as error:
            return str(error)

    def _reason_against(self, first: Surface) -> str | None:
        """Why NVENC does not encode it; None when it does, empty when nobody would expect it to."""
        if self._wanted == "cpu" or self._gpu is None:
            return ""
        if self._wanted == "auto" and first.memory is Memory.HOST:
            return "its images lie in host memory"
        library = self._library
        if isinstance(library, str):
            return library
        return reason_against(first, codec=self.settings.codec, library=library)

    def _opened(self, muxer: Muxer, first: Surface) -> NvencEncoder:
        assert self._gpu is not None
        assert isinstance(self._library, NvencLibrary)
        return NvencEncoder(muxer, first=first, settings=self.settings, library=self._library, gpu=self._gpu)
