"""One NVDEC session: packets submitted, the image of its key frame compared, images given in presentation order."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.pools import CudaPool
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, SurfaceReleased
from sightline.media import Surface
from sightline_plugins.codecs.packet import packet_of
from sightline_plugins.codecs.sps import with_origin_uncropped
from sightline_plugins.decode.decoder import Image
from sightline_plugins.decode.nvdec_library import HardwareDecoder, ImageFacts, NvdecError, NvdecLibrary
from sightline_plugins.decode.nvdec_surfaces import ImageSurfaces
from sightline_plugins.decode.nvdec_verification import Verdict, compare
from sightline_plugins.decode.orientation import UPRIGHT
from sightline_plugins.decode.packet_tap import packet_number

_FIRST_MARK = -(2**63) + 1
"""Packets without a timestamp carry marks that no timestamp is."""
ANY_COMPARISON = -1
"""Of an image whose packet is not known: it is not given before any comparison is over."""
LONGEST_STAY = 64
"""A packet whose image has not come out when so many others have gone in gives none; no codec waits for more."""


class Submission(NamedTuple):
    """What a packet says of its image; `number` is its own where encoded images are kept.

    `reference` is the CPU's decoding of it, with which its image is to be compared. `comparison` is the number of the
    comparison that was not over when the packet went in, and before whose end its image is not given; 0 without one.
    """

    pts: int | None
    dts: int | None
    is_discard: bool
    number: int | None
    reference: VideoFrame | None = None
    comparison: int = 0

    @classmethod
    def of(cls, packet: Packet[VideoStream], *, reference: VideoFrame | None = None) -> Submission:
        """What this packet says."""
        return cls(packet.pts, packet.dts, packet.is_discard, packet_number(packet), reference)


class Submitted:
    """The packets that are in one decoder.

    `reorder_depth` is by how many packets FFmpeg's decoder is behind: images without a presentation time are timed by
    the decoding time of the packet that went in when FFmpeg's comes out, so that both decoders time them alike.
    """

    def __init__(self, *, reorder_depth: int) -> None:
        self._depth = reorder_depth
        self._inside: dict[int, deque[tuple[int, Submission]]] = {}
        self._decoding_times: deque[int | None] = deque(maxlen=2 * LONGEST_STAY)
        self._put = 0
        self._first: int | None = None
        self._highest: int | None = None
        self.is_reordered = False
        """Whether a packet came with a lower presentation time than one before it: there are B-frames."""
        self.without_image = 0
        """How many packets in a row gave no image."""

    def put(self, submission: Submission) -> int:
        """A packet goes in; returns the timestamp that it is to carry."""
        pts = submission.pts
        mark = _FIRST_MARK + self._put if pts is None else pts
        self._inside.setdefault(mark, deque()).append((self._put, submission))
        self._decoding_times.append(submission.dts)
        if not self._put:
            self._first = pts
        self._put += 1
        self.without_image += 1
        if pts is not None:
            self.is_reordered |= self._highest is not None and pts < self._highest
            self._highest = pts if self._highest is None else max(pts, self._highest)
        return mark

    def take(self, timestamp: int) -> Submission:
        """An image came out with that timestamp; one that no packet carried says nothing of its packet."""
        self.without_image = 0
        dts = self._decoding_times[self._depth] if self._depth < len(self._decoding_times) else None
        if self._decoding_times:
            self._decoding_times.popleft()
        known = self._inside.get(timestamp)
        if known is None:
            return Submission(None, dts, is_discard=False, number=None, comparison=ANY_COMPARISON)
        _, found = known.popleft()
        if not known:
            del self._inside[timestamp]
        return found._replace(dts=dts) if found.pts is None else found

    def overdue(self) -> int:
        """How many packets have given no image although so many others went in after them; they are forgotten."""
        if self._put % LONGEST_STAY:
            return 0
        late = [mark for mark, waiting in self._inside.items() if waiting[0][0] < self._put - LONGEST_STAY]
        return sum(self._missing(mark, self._inside.pop(mark)) for mark in late)

    def left(self) -> int:
        """How many packets have given no image, when all images are out."""
        return sum(self._missing(mark, waiting) for mark, waiting in self._inside.items())

    def _missing(self, timestamp: int, waiting: deque[tuple[int, Submission]]) -> int:
        """How many images those packets should have given: none where they are shown before the key frame with which
        the decoder began, and may refer to images before that (open GOP).
        """
        is_leading = self._first is not None and _FIRST_MARK + self._put < timestamp < self._first
        return 0 if is_leading else len(waiting)


_MOST_HELD = 16
"""So many images at most are shown before a key frame that comes before them in the stream."""


class WrongImage(NvdecError):
    """The image of a key frame is not the CPU's. `before` are images of packets before that key frame.

    From the key frame on nothing has been given.
    """

    def __init__(self, reason: str, *, before: list[Image]) -> None:
        super().__init__(reason)
        self.before = before


class Session:
    """Decodes images of one size; for one thread. Raises NvdecError when the decoder cannot be made.

    What it gives lies in the decoder's memory until the next packet goes in; `Image.surface` copies it into the pool
    before that, and raises SurfaceReleased afterwards.

    A packet with a `reference` is compared: the images from it on are held until its own has come out and is the CPU's.
    WrongImage is raised where it is not.

    PyNvVideoCodec gives images of the cropped size, but always from the corner of the coded image on. So the decoder
    of a stream that crops left or top gets SPSs that do not, and the copy begins where the video does.
    """

    def __init__(
        self,
        library: NvdecLibrary,
        *,
        codec: str,
        facts: ImageFacts,
        gpu: CudaDevice,
        stream: CudaStream,
        pool: CudaPool,
        submitted: Submitted,
        is_immediate: bool,
    ) -> None:
        self._is_immediate = is_immediate
        self.submitted = submitted
        self._codec, self._facts = codec, facts
        self._is_cropped_at_origin, self._is_turned = facts.origin != (0, 0), facts.orientation != UPRIGHT
        self._gpu, self._stream, self._pool = gpu, stream, pool
        self._surfaces: ImageSurfaces | None = None
        self._calls = 0
        self._held: list[Image] = []
        self._comparisons = 0
        self.is_comparing = False
        """Whether an image that is to be compared has not come out."""
        self.verdict: Verdict | None = None
        """Of the last comparison."""
        self._hardware: HardwareDecoder | None = library.decoder(
            codec, stream_handle=stream.handle, is_immediate=is_immediate
        )

    def decode(self, packet: Packet[VideoStream], submission: Submission) -> list[Image]:
        """The images that come out when this packet, a byte stream, goes in. Raises NvdecError, WrongImage."""
        assert self._hardware is not None
        self._calls += 1
        if submission.reference is not None:
            self._comparisons, self.is_comparing = self._comparisons + 1, True
        if self.is_comparing:
            submission = submission._replace(comparison=self._comparisons)
        if self._is_cropped_at_origin:
            packet = packet_of(with_origin_uncropped(self._codec, bytes(packet)))
        timestamp = self.submitted.put(submission)
        given = self._hardware.decode(packet.buffer_ptr, size_bytes=packet.size, timestamp=timestamp)
        return self._images(given)

    @property
    def is_misjudged(self) -> bool:
        """Whether there are B-frames after all, and images must not be given with their own packets."""
        return self._is_immediate and self.submitted.is_reordered

    def finish(self) -> list[Image]:
        """The images that are left. Raises NvdecError, WrongImage."""
        assert self._hardware is not None
        self._calls += 1
        images = self._images(self._hardware.flush())
        if self._held:
            raise WrongImage(_NO_IMAGE, before=images)
        return images

    def close(self) -> None:
        """Release the decoder, and before that its memory: what copies from there is waited for."""
        self._calls += 1
        if self._hardware is not None:
            with suppress(CudaError):  # the guard keeps the cause
                self._stream.synchronize()
            self._hardware = self._surfaces = None
            self._held.clear()

    def _images(self, given: list[tuple[int, int]]) -> list[Image]:
        images: list[Image] = []
        for timestamp, address in given:
            submission = self.submitted.take(timestamp)
            surface = partial(self._surface, self._surfaces_of_decoder(), address, call=self._calls)
            is_held = self.is_comparing and submission.comparison in (self._comparisons, ANY_COMPARISON)
            if is_held:
                surface = partial(_same, surface())
            if submission.reference is not None:
                self._compare(surface(), submission.reference, before=images)
                images += self._held
                self._held, self.is_comparing, is_held = [], False, False
            if submission.is_discard:
                continue
            image = Image(
                submission.pts,
                submission.dts,
                is_corrupt=False,
                packet=submission.number,
                surface=surface,
                is_turned=self._is_turned,
            )
            if not is_held:
                images.append(image)
            elif len(self._held) < _MOST_HELD:
                self._held.append(image)
            else:
                raise WrongImage(_NO_IMAGE, before=images)
        return images

    def _compare(self, surface: Surface, reference: VideoFrame, *, before: list[Image]) -> None:
        self.verdict = compare(surface, reference, orientation=self._facts.orientation)
        if self.verdict.difference is not None:
            raise WrongImage(f"NVDEC's image differs from the CPU's: {self.verdict.difference}", before=before)

    def _surfaces_of_decoder(self) -> ImageSurfaces:
        if self._surfaces is None:
            assert self._hardware is not None
            self._surfaces = ImageSurfaces(
                self._facts, layout=self._hardware.layout, gpu=self._gpu, stream=self._stream, pool=self._pool
            )
        return self._surfaces

    def _surface(self, surfaces: ImageSurfaces, address: int, *, call: int) -> Surface:
        if call != self._calls:
            raise SurfaceReleased("the decoder has had another packet: this image is gone")
        return surfaces.surface(address)


_NO_IMAGE = "NVDEC gives no image of a key frame"


def _same(surface: Surface) -> Surface:
    return surface
