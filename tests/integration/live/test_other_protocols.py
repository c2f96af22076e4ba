"""Live inputs that are no RTSP go through the same supervision."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import pytest

from sightline.graph import MessageKind, StreamState
from tests.integration.camera.clips import write_noise
from tests.integration.live.watching import Watched, until
from tests.ports import free_port

RATE = 25


class Sender:
    """Sends a clip again and again as MPEG-TS over UDP, at its own speed, while its block is open and not `silent`."""

    def __init__(self, clip: Path, *, port: int) -> None:
        self.silent = False
        self._clip, self._port = clip, port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        with av.open(f"udp://127.0.0.1:{self._port}?pkt_size=1316", "w", format="mpegts") as target:
            out, shift = None, 0
            while not self._over.is_set():
                with av.open(str(self._clip)) as source:
                    video = source.streams.video[0]
                    out = out or target.add_stream_from_template(video)
                    packets = [packet for packet in source.demux(video) if packet.size]
                    for packet in packets:
                        if self._over.wait(1 / RATE):
                            return
                        assert packet.pts is not None
                        assert packet.dts is not None
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = out
                        if not self.silent:
                            target.mux(packet)
                    shift += int(video.duration or 0)


def test_a_sender_over_udp_is_live_stalls_and_comes_back(tmp_path: Path) -> None:
    clip = write_noise(tmp_path / "noise.mp4")
    port = free_port()
    with (
        Sender(clip, port=port) as sender,
        Watched({"cam": {"uri": f"udp://127.0.0.1:{port}", "stall": "1s"}}) as watched,
    ):
        watched.has_frames(20)
        sender.silent = True
        watched.has_state(StreamState.STALLED, stream="cam")
        sender.silent = False
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_BACK)))

    assert {seen.time_source for seen in watched.frames["cam"]} == {"arrival"}


@pytest.mark.parametrize("uri", ["udp://127.0.0.1:9", "rtmp://127.0.0.1:9/live/cam", "tcp://127.0.0.1:9"])
def test_a_sender_that_is_not_there_does_not_keep_a_run_from_stopping(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline_plugins.decode.open_media._CONNECTING_SECONDS", 600.0)
    with Watched({"cam": uri}) as watched:
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_CONNECTING)))
        time.sleep(0.2)

    assert watched.stop_seconds < 60
