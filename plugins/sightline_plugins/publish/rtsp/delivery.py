"""One client's stream: images as they come, as RTP packets, and sender reports between them."""

from __future__ import annotations

import random
import time
from collections import OrderedDict

from sightline.rtsp.channels import Channel
from sightline.rtsp.payloads import payloads
from sightline.rtsp.rtp import RtpStream
from sightline.rtsp.sdp import PAYLOAD_TYPES
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.publish.broadcast import Broadcast
from sightline_plugins.publish.image import Format, Image
from sightline_plugins.publish.viewer import Viewer

_REPORT_EVERY_NS = 1_000_000_000
_REMEMBERED = 32


class Cutter:
    """Images cut into payloads, each once for all clients that are about at the same place."""

    def __init__(self) -> None:
        self._payloads: OrderedDict[Image, tuple[bytes, ...]] = OrderedDict()

    def payloads(self, image: Image) -> tuple[bytes, ...]:
        """The RTP payloads of an image; a key frame's with the parameter sets."""
        known = self._payloads.get(image)
        if known is None:
            known = payloads(image.all_units, codec=image.format.codec)
            self._payloads[image] = known
            while len(self._payloads) > _REMEMBERED:
                self._payloads.popitem(last=False)
        return known


class Delivery:
    """Sends a broadcast to one client until it ends, or until its codec is another one.

    Timestamps follow the stream's own. Reports tie them to the time of day at which images were taken, or, where
    that is not known, at which they are sent.
    """

    def __init__(self, broadcast: Broadcast, channel: Channel, *, described: Format, cutter: Cutter) -> None:
        self._broadcast, self._channel, self._cutter = broadcast, channel, cutter
        self._codec = described.codec
        number = PAYLOAD_TYPES[described.codec]
        self._rtp = RtpStream(number, ssrc=random.getrandbits(32), sequence=random.getrandbits(16))
        self._base = random.getrandbits(31)
        self._reported_ns: int | None = None

    def rtp_info(self, url: str) -> str:
        """The value of `RTP-Info`: with which number it begins."""
        return f"url={url};seq={self._rtp.sequence}"

    async def run(self) -> None:
        """Send. Raises OSError when the client is gone, TooManyViewers when there is no room."""
        async with Viewer(self._broadcast) as viewer:
            while (image := await viewer.next()) is not None and image.format.codec is self._codec:
                await self._send(image)
        await self._channel.send_control(self._rtp.goodbye())

    async def _send(self, image: Image) -> None:
        timestamp = self._base + ticks_from_ns(image.pts_ns)
        if self._reported_ns is None or abs(image.dts_ns - self._reported_ns) >= _REPORT_EVERY_NS:
            self._reported_ns = image.dts_ns
            epoch_ns = time.time_ns() if image.capture_ns is None else image.capture_ns
            await self._channel.send_control(self._rtp.report(epoch_ns=epoch_ns, timestamp=timestamp))
        parts = self._cutter.payloads(image)
        last = len(parts) - 1
        packets = [
            self._rtp.packet(part, timestamp=timestamp, marker=number == last) for number, part in enumerate(parts)
        ]
        await self._channel.send_media(packets)
