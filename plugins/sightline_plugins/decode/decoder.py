"""The seam between demuxing and decoding: how images are to be decoded, by what they are, and what comes out.

One thread has a decoder from its making to its close. The CPU's is `cpu_decoder.py`, the GPU's lies in `nvdec/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.media import Surface
from sightline_plugins.decode.orientation import Orientation

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """How the images of a stream are decoded.

    `threads` of the CPU, 0 for as many as there are cores, 1 to decode in the calling thread; `orientation` turns every
    image, None follows the stream's metadata. With a `gpu`, surfaces lie in its memory, and it decodes what it can;
    its first image is compared with the CPU's when it `verifies_nvdec`.
    """

    threads: int = 1
    orientation: Orientation | None = None
    gpu: CudaDevice | None = None
    verifies_nvdec: bool = True


@dataclass(frozen=True, slots=True)
class DecoderChoice:
    """What decodes a stream, `cpu` or `nvdec`.

    `reason` says why it is the CPU although the run has a GPU, or what NVDEC alone would get wrong and is put right.
    """

    name: str
    reason: str | None = None


class Image(NamedTuple):
    """A decoded image; it is there until the next packet goes into its decoder.

    `pts` and `dts` are in units of the stream's time base; `packet` is the number of the encoded image that it was
    decoded from, where such are kept. `surface()` makes its surface, which is there for as long as it is held; it may
    raise CudaError. `is_turned` says that the surface is turned or mirrored beside what was encoded.
    """

    pts: int | None
    dts: int | None
    is_corrupt: bool
    packet: int | None
    surface: Callable[[], Surface]
    is_turned: bool = False


class Decoded(NamedTuple):
    """What came of a packet: images in presentation order, and how many packets turned out not to decode."""

    images: Sequence[Image] = ()
    damaged_packets: int = 0

    def then(self, later: Decoded) -> Decoded:
        """This, and what came after it."""
        return Decoded([*self.images, *later.images], self.damaged_packets + later.damaged_packets)


class ImageDecoder(Protocol):
    """Decodes the packets of one stream."""

    @property
    def choice(self) -> DecoderChoice | None:
        """What decodes, once that is known; it may become another in mid-stream."""
        ...

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in; an empty one makes it hand out the rest."""
        ...

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream: what has not come out is dropped."""
        ...

    def close(self) -> None:
        """Let go of everything; harmless when called again."""
        ...
