"""A mutant: surfaces that lie in the decoder's own memory."""

from __future__ import annotations

from sightline.devices.gpu.memory import BorrowedMemory
from sightline.media import Surface
from sightline_plugins.decode.nvdec.surfaces import PictureSurfaces


def surface_of_the_decoder(self: PictureSurfaces, address: int) -> Surface:
    """What `PictureSurfaces.surface` would be if a picture were not copied."""
    memory = BorrowedMemory(self._gpu, address, size_bytes=self._size_bytes, what="a picture in a decoder's memory")
    planes = tuple(self._planes(memory, address))
    return Surface(self._format, self._facts.size_wh, planes).written(self._stream.record())
