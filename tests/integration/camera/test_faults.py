"""Each fault of the fake camera, as an independent client meets it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import av
import pytest

from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec
from tests.integration.camera.clips import FPS, noise_clip, watch

TICKS = 3_600
HOUR_TICKS = 3_600 * 90_000
DAY_SECONDS = 86_400
ONCE = CameraOptions(paced=False, passes=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def clip(folder: Path) -> Clip:
    return noise_clip(folder)


def steps_of(pts: list[int | None]) -> list[int]:
    """Ticks from each packet to the next."""
    known = [one for one in pts if one is not None]
    return [later - earlier for earlier, later in pairwise(known)]


@pytest.mark.parametrize(("transport", "loss"), [("tcp", 0.01), ("tcp", 0.05), ("tcp", 0.3), ("udp", 0.05)])
def test_so_many_packets_are_lost_and_counted(clip: Clip, transport: str, loss: float) -> None:
    options = CameraOptions(passes=4) if transport == "udp" else CameraOptions(paced=False, passes=4)
    with FakeCamera(clip.at_fps(100), options=options, seed=1) as camera:
        camera.faults.loss = loss
        watched = watch(camera.url, transport=transport)
        sent = camera.sent

    made = sent.packets + sent.lost_packets
    assert made > 1_000
    assert sent.lost_packets / made == pytest.approx(loss, rel=0.3)
    assert 0 < sent.hurt_images <= sent.images
    assert watched.error is None
    assert len(watched.packets) >= 100


def test_loss_is_the_same_in_every_run_of_a_seed(clip: Clip) -> None:
    lost = []
    for seed in (1, 1, 2):
        with FakeCamera(clip, options=ONCE, seed=seed) as camera:
            camera.faults.loss = 0.1
            watch(camera.url)
            lost.append((camera.sent.lost_packets, camera.sent.hurt_images, camera.sent.octets))

    assert lost[0] == lost[1] != lost[2]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_damaged_packets_are_counted_and_do_damage(clip: Clip, transport: str) -> None:
    with FakeCamera(clip.at_fps(100), options=CameraOptions(passes=2), seed=3) as camera:
        camera.faults.corruption = 0.05
        watched = watch(camera.url, transport=transport)
        corrupted = camera.sent.corrupted_packets

    originals = {packet.data for packet in clip.packets}
    assert corrupted > 10
    assert any(packet not in originals for packet in watched.packets)


@contextmanager
def later(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Do something after some time, in another thread; it is done at the end of the block."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_stalled_camera_is_silent_and_goes_on_where_it_stood(clip: Clip, transport: str) -> None:
    with FakeCamera(clip, options=CameraOptions(passes=1)) as camera, ExitStack() as stack:

        def stall(count: int) -> None:
            if count == 10:
                camera.faults.stall = True
                stack.enter_context(later(0.5, partial(setattr, camera.faults, "stall", False)))

        watched = watch(camera.url, transport=transport, during=stall)

    gaps = sorted(steps_of(watched.packet_pts))
    assert len(watched.packets) == len(clip.packets)
    assert gaps[-1] > 2 * TICKS
    assert gaps[-2] == TICKS


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_stall_without_end_is_met_by_the_client_s_own_limit(clip: Clip, transport: str) -> None:
    with FakeCamera(clip) as camera:

        def stall(count: int) -> None:
            camera.faults.stall = count >= 5

        watched = watch(camera.url, transport=transport, limit_seconds=1, during=stall)
        camera.faults.stall = True
        asked = watch(camera.url, transport=transport, limit_seconds=1)

    assert isinstance(watched.error, av.error.ExitError | av.error.TimeoutError)
    assert asked.packets == []


def test_a_killed_camera_is_gone_and_comes_back_on_its_port(clip: Clip) -> None:
    with FakeCamera(clip) as camera:
        port = camera.port
        watched = watch(camera.url, during=lambda count: camera.kill() if count == 5 else None)
        refused = watch(camera.url)
        camera.restart()
        back = watch(camera.url, packets=5)

        assert camera.port == port
    assert 5 <= len(watched.packets) < len(clip.packets)
    assert isinstance(refused.error, av.error.ConnectionRefusedError)
    assert len(back.packets) == 5


def test_nobody_else_is_given_the_port_of_a_killed_camera(clip: Clip) -> None:
    with FakeCamera(clip) as camera, socket.socket() as other:
        camera.kill()

        with pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", camera.port))


def test_a_camera_can_be_killed_again_and_again(clip: Clip) -> None:
    with FakeCamera(clip.at_fps(200)) as camera:
        for _ in range(10):
            assert len(watch(camera.url, packets=2).packets) == 2
            camera.kill()
            camera.restart()
        assert camera.sent.sessions == 10


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, av.error.HTTPUnauthorizedError),
        (404, av.error.HTTPNotFoundError),
        (503, av.error.HTTPServerError),
    ],
)
def test_requests_are_refused(clip: Clip, status: int, error: type[Exception]) -> None:
    with FakeCamera(clip) as camera:
        camera.faults.refuse = status
        watched = watch(camera.url)
        assert camera.sent.refused > 0

    assert isinstance(watched.error, error)


def test_credentials_can_change(clip: Clip) -> None:
    with FakeCamera(clip, credentials="admin:one", options=ONCE) as camera:
        before = camera.login_url
        camera.credentials = "admin:two"

        assert isinstance(watch(before).error, av.error.HTTPUnauthorizedError)
        assert watch(camera.login_url).error is None


def test_garbage_is_no_answer(clip: Clip) -> None:
    with FakeCamera(clip) as camera:
        camera.faults.garbage = True
        watched = watch(camera.url, limit_seconds=1)

    assert watched.error is not None


def test_a_trickle_is_a_byte_at_a_time(clip: Clip) -> None:
    with FakeCamera(clip) as camera, socket.create_connection(("127.0.0.1", camera.port), timeout=300) as client:
        camera.faults.trickle = 200
        client.sendall(f"OPTIONS {camera.url} RTSP/1.0\r\nCSeq: 1\r\n\r\n".encode())
        pieces = [client.recv(4_096) for _ in range(10)]

    assert b"".join(pieces).startswith(b"RTSP/1.0"[:8])
    assert sum(map(len, pieces)) < 40


def test_another_clip_comes_in_the_middle_of_a_session(clip: Clip, folder: Path) -> None:
    larger = noise_clip(folder, size_wh=(320, 192))
    with FakeCamera(clip, options=CameraOptions(paced=False, passes=1)) as camera:
        watched = watch(camera.url, during=lambda count: None if count != 1 else camera.swap(larger))
        assert camera.sent.sessions == 1

    assert watched.sizes_wh in ([(160, 96), (320, 192)], [(160, 96)])


def test_size_and_rate_change_in_a_session(clip: Clip, folder: Path) -> None:
    larger = noise_clip(folder, size_wh=(320, 192)).at_fps(50)
    with FakeCamera(clip, options=CameraOptions(passes=1)) as camera:
        watched = watch(camera.url, during=lambda count: camera.swap(larger) if count == 12 else None)

    assert watched.sizes_wh == [(160, 96), (320, 192)]
    assert set(steps_of(watched.packet_pts)[-30:]) == {1_800}


def test_the_rate_changes_in_a_session(clip: Clip) -> None:
    with FakeCamera(clip.at_fps(100)) as camera:
        watched = watch(camera.url, packets=80, during=lambda count: camera.swap(clip) if count == 40 else None)

    assert {900, TICKS} <= set(steps_of(watched.packet_pts))


def test_another_codec_ends_the_session_and_is_there_for_the_next(clip: Clip, folder: Path) -> None:
    other = noise_clip(folder, codec=Codec.H265)
    with FakeCamera(clip) as camera:
        first = watch(camera.url, during=lambda count: camera.swap(other) if count == 5 else None)
        second = watch(camera.url, packets=5)

    assert first.error is None
    assert (first.codec, second.codec) == ("h264", "hevc")
    assert len(second.packets) == 5


@pytest.mark.parametrize("hours", [1, -1])
def test_timestamps_jump(clip: Clip, hours: int) -> None:
    with FakeCamera(clip, options=CameraOptions(passes=1)) as camera:
        camera.faults.reports = "none"

        def jump(count: int) -> None:
            if count == 10:
                camera.faults.jump = hours * 3_600

        watched = watch(camera.url, during=jump)

    # FFmpeg unwraps timestamps to rise: an hour back is almost 2^32 on.
    jumps = [step % 2**32 for step in steps_of(watched.packet_pts) if step != TICKS]
    assert jumps == [(hours * HOUR_TICKS + TICKS) % 2**32]


def test_timestamps_pass_their_largest_value(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.wrap = 1
        raw = timestamps(camera)

    assert raw[0] == 2**32 - 90_000
    assert raw[FPS] == 0
    assert len(raw) == len(clip.packets)


def test_timestamps_are_zero(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.timestamps = "zero"

        assert set(timestamps(camera)) == {0}


def test_timestamps_are_used_twice(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.timestamps = "doubled"
        raw = timestamps(camera)

    assert len(raw) == len(clip.packets) / 2
    assert set(steps_of(list(raw))) == {2 * TICKS}


@pytest.mark.parametrize(
    ("reports", "error_days"), [("true", 0), ("1970", -50 * 365), ("future", 3_652)], ids=["true", "1970", "future"]
)
def test_reports_tell_the_time_of_day_or_lie(clip: Clip, reports: str, error_days: int) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.reports = "1970" if reports == "1970" else "future" if reports == "future" else "true"
        with av.open(camera.url, options={"rtsp_transport": "tcp"}, timeout=300) as container:
            (microseconds,) = next(
                struct.unpack_from("=q", bytes(packet.get_sidedata("prft")))
                for packet in container.demux(video=0)
                if packet.has_sidedata("prft")
            )

    error_seconds = microseconds / 1e6 - time.time()
    if reports == "1970":
        assert error_seconds < error_days * DAY_SECONDS
    else:
        # The seconds of NTP have 32 bits, which begin anew in 2036.
        off = (error_seconds - error_days * DAY_SECONDS) % 2**32
        assert min(off, 2**32 - off) < 60


def test_no_reports_are_sent_when_none_are_wanted(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.reports = "none"
        watch(camera.url)

        assert camera.sent.reports == 0


def test_the_first_key_frame_is_late(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.late_key = 0.5
        watch(camera.url)

        assert camera.sent.withheld_images == 2
        assert camera.sent.key_frames == 3


def timestamps(camera: FakeCamera) -> list[int]:
    """The RTP timestamps of a session, each once, in order: read from the socket, where nobody has repaired them."""
    with socket.create_connection(("127.0.0.1", camera.port), timeout=300) as client, client.makefile("rb") as answers:
        for number, (method, extra) in enumerate(
            (("SETUP", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"), ("PLAY", ""))
        ):
            client.sendall(f"{method} {camera.url}/video RTSP/1.0\r\nCSeq: {number}\r\n{extra}\r\n".encode())
            while answers.readline().strip():
                pass
        found: dict[int, None] = {}
        while (head := answers.read(4)) and len(head) == 4:
            packet = answers.read(int.from_bytes(head[2:], "big"))
            if head[1] == 0:
                found[int.from_bytes(packet[4:8], "big")] = None
        return list(found)
