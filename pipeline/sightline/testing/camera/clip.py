"""What a fake camera shows: encoded images and their times, as plain bytes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sightline.rtsp.bitstream import is_h264_parameter_set, is_h265_parameter_set, nal_units
from sightline.rtsp.codec import Codec

_SECOND_NS = 1_000_000_000
_DEFAULT_INTERVAL_NS = 40_000_000


@dataclass(frozen=True, slots=True)
class ClipPacket:
    """One encoded image: `data` is Annex B, or a whole JPEG. `pts_ns` is when it is shown, `dts_ns` when decoded."""

    data: bytes
    pts_ns: int
    dts_ns: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Clip:
    """Images of one video, in decoding order; made by `Clip.of`.

    Times are such that they suit a camera: `dts_ns` is when an image is sent, from 0; `pts_ns` is when it was taken,
    never later than it is sent. `duration_ns` is the time after which the clip can begin again. `parameter_sets` are
    NAL units without start codes; they go into the session description and before every key frame that lacks them.
    """

    codec: Codec
    size_wh: tuple[int, int]
    packets: tuple[ClipPacket, ...]
    parameter_sets: tuple[bytes, ...]
    duration_ns: int

    @classmethod
    def of(
        cls,
        packets: Sequence[ClipPacket],
        *,
        codec: Codec,
        size_wh: tuple[int, int],
        parameter_sets: Sequence[bytes] = (),
    ) -> Clip:
        """A clip of packets in decoding order with any origin of time.

        Parameter sets that are not given are taken from the first key frame. Raises ValueError when there is no
        packet, the first is no key frame, or decoding times do not rise.
        """
        if not packets or not packets[0].is_key:
            raise ValueError("a clip has at least one image, and begins with a key frame")
        times = [packet.dts_ns for packet in packets]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError("decoding times rise from packet to packet")
        sets = tuple(parameter_sets) or _parameter_sets(packets[0].data, codec)
        if codec is not Codec.MJPEG and not sets:
            raise ValueError("the first key frame brings no parameter sets, and none are given")
        last_interval_ns = times[-1] - times[-2] if len(times) > 1 else _DEFAULT_INTERVAL_NS
        duration_ns = times[-1] - times[0] + last_interval_ns
        return cls(codec, size_wh, _from_zero(packets), sets, duration_ns)

    def first(self, count: int) -> Clip:
        """The clip cut after so many images."""
        return replace(self, packets=self.packets[:count], duration_ns=self._time_of(count))

    def at_fps(self, fps: float) -> Clip:
        """The same images, evenly at another rate."""
        interval_ns = _SECOND_NS / fps
        shown = {pts_ns: rank for rank, pts_ns in enumerate(sorted(packet.pts_ns for packet in self.packets))}
        packets = [
            replace(packet, dts_ns=round(number * interval_ns), pts_ns=round(shown[packet.pts_ns] * interval_ns))
            for number, packet in enumerate(self.packets)
        ]
        return replace(self, packets=_from_zero(packets), duration_ns=round(len(packets) * interval_ns))

    @property
    def fps(self) -> float:
        """Images a second, on average."""
        return len(self.packets) * _SECOND_NS / self.duration_ns

    def _time_of(self, number: int) -> int:
        return self.packets[number].dts_ns if number < len(self.packets) else self.duration_ns


def _from_zero(packets: Sequence[ClipPacket]) -> tuple[ClipPacket, ...]:
    begin_ns = packets[0].dts_ns
    delay_ns = max(packet.pts_ns - packet.dts_ns for packet in packets)
    return tuple(
        replace(packet, dts_ns=packet.dts_ns - begin_ns, pts_ns=packet.pts_ns - begin_ns - delay_ns)
        for packet in packets
    )


def _parameter_sets(data: bytes, codec: Codec) -> tuple[bytes, ...]:
    if codec is Codec.MJPEG:
        return ()
    wanted = is_h264_parameter_set if codec is Codec.H264 else is_h265_parameter_set
    return tuple(unit for unit in nal_units(data) if wanted(unit))
