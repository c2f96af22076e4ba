"""A mutant: surfaces that lie in the decoder's own memory."""

from __future__ import annotations

from sightline.devices.cuda.memory import BorrowedMemory
from sightline.media import Surface
from sightline_plugins.decode.nvdec_surfaces import ImageSurfaces


def surface_of_the_decoder(self: ImageSurfaces, address: int) -> Surface:
    """What `ImageSurfaces.surface` would be if an image were not copied."""
    memory = BorrowedMemory(self._gpu, address, size_bytes=self._size_bytes, what="an image in a decoder's memory")
    planes = tuple(self._planes(memory, address))
    return Surface(self._format, self._facts.size_wh, planes).written(self._stream.record())
