"""RTSP servers that answer wrongly: mutated text, garbage, endless heads, huge lengths, silence, damaged RTP."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
import time
from base64 import b64decode, b64encode
from contextlib import closing
from pathlib import Path
from random import Random

from sightline.devices import Device
from sightline.errors import StreamError
from sightline.graph import Site
from sightline.media import Stream
from sightline_plugins import Rtsp
from sightline_plugins.codecs.bitstream import nal_units
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.rtsp.messages import describe
from sightline_plugins.rtsp.payloads import RtpStream, payloads
from tools.fuzz.mutations import mutated
from tools.fuzz.targets.media import SAMPLES
from tools.fuzz.targets.target import Mutant

_STALL = "300ms"
_MOST_FRAMES = 40
_IMAGES = 12
_TICKS = 3_600
_PATIENCE_SECONDS = 0.4
_CSEQ = re.compile(rb"cseq:\s*(\d+)", re.IGNORECASE)
_HEADERS = (
    *("Content-Length: 99999999999", "Content-Length: -1", "Content-Base: rtsp://[", "Session: " + "9" * 5_000),
    *("Transport: RTP/AVP/TCP;interleaved=255-256", "Transport: RTP/AVP;client_port=1-2;server_port=0-0", "CSeq: -7"),
    *(
        "RTP-Info: url=;seq=99999999;rtptime=-1",
        "Range: npt=nan-inf",
        "Location: rtsp://127.0.0.1:1/x",
        "X: " + "a" * 70_000,
    ),
    *('WWW-Authenticate: Digest realm="' + "r" * 3_000, "Public: " + "OPTIONS," * 2_000, "Content-Encoding: gzip"),
)
_STATUSES = (100, 200, 301, 302, 400, 401, 404, 454, 461, 503, 0, 99_999)
_LINES = (
    "m=video 0 RTP/AVP 96",
    "a=rtpmap:96 H265/90000",
    "a=fmtp:96 sprop-parameter-sets=,,,=",
    "a=control:" + "x" * 4_000,
)
_OK = "RTSP/1.0 200 OK\r\nCSeq: %CSEQ%\r\n"
_SESSION = "Session: 1234;timeout=60\r\n"


class RtspTarget:
    """Read by the `rtsp` source until it fails, as it may, in time."""

    extra_mib = 256

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        del shared, folder
        clip = load_clip(str(SAMPLES / "entrance.mp4"))
        sdp = describe(clip.codec, parameter_sets=clip.parameter_sets, name="fuzz", host="127.0.0.1", fps=25)
        stream = RtpStream(96, 0xF022, 0)
        self._media = [
            _framed(0, stream.packet(payload, timestamp=number * _TICKS, marker=payload is parts[-1]))
            for number, packet in enumerate(clip.packets[:_IMAGES])
            for parts in (payloads(list(nal_units(packet.data)), codec=clip.codec),)
            for payload in parts
        ]
        report = stream.report(epoch_ns=time.time_ns(), timestamp=0)
        self._media.insert(1, _framed(1, report))
        described = f"Content-Type: application/sdp\r\nContent-Length: {len(sdp)}\r\n\r\n{sdp}"
        parts = (
            "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n\r\n",
            described,
            f"{_SESSION}Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n",
            f"{_SESSION}Range: npt=0.000-\r\n\r\n",
        )
        self._answers = [(_OK + part).encode() for part in parts]

    def mutant(self, random: Random) -> Mutant:
        """What a server says to each request in turn, and what it sends afterwards."""
        answers = list(self._answers)
        media = list(self._media)
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            at = random.randrange(len(answers))
            answers[at] = _wrong_answer(answers[at], self._answers, random)
        if random.random() < 0.6:
            for _ in range(random.choice((1, 4, 20))):
                at = random.randrange(len(media))
                media[at] = _wrong_packet(media[at], media, random)
        if random.random() < 0.2:
            random.shuffle(media)
        script = {
            "answers": [b64encode(answer).decode() for answer in answers],
            "media": b64encode(b"".join(media)).decode(),
            "piece": random.choice((0, 0, 0, 1, 100)),
            "ends": random.choice(("close", "close", "reset", "reset", "reset", "silence")),
        }
        return Mutant(json.dumps(script).encode(), ".json")

    def exercise(self, path: Path) -> str:
        """`frames` or `refused`."""
        with _Server(json.loads(path.read_bytes())) as url:
            reader = Rtsp.model_validate({"uri": url, "stall_timeout": _STALL}).build(
                Site(device=Device()), stream=_STREAM
            )
            count = 0
            try:
                with closing(reader):
                    for count, _ in enumerate(reader.frames(), 1):
                        if count >= _MOST_FRAMES:
                            break
            except StreamError:
                return "broke off" if count else "refused"
        return "frames"


_STREAM = Stream("fuzz", live=True)


def _framed(channel: int, packet: bytes) -> bytes:
    return struct.pack(">cBH", b"$", channel, len(packet)) + packet


def _wrong_answer(answer: bytes, others: list[bytes], random: Random) -> bytes:
    kind = random.randrange(6)
    head, _, body = answer.partition(b"\r\n")
    if kind == 0:
        return mutated(answer, others, random)
    if kind == 1:
        return b"RTSP/1.0 %d What\r\n" % random.choice(_STATUSES) + body
    if kind == 2:
        return head + b"\r\n" + random.choice(_HEADERS).encode() + b"\r\n" + body
    if kind == 3:
        return random.choice(
            (b"", random.randbytes(300), b"HTTP/1.1 200 OK\r\n\r\n", b"$\x00\xff\xff", b"\r\n" * 5_000)
        )
    if kind == 4:
        return answer + random.choice(_LINES).encode() * random.choice((1, 500))
    return answer.replace(b"\r\n", random.choice((b"\n", b"\r", b"\x00", b"\r\n\r\n")), random.choice((1, -1)))


def _wrong_packet(packet: bytes, others: list[bytes], random: Random) -> bytes:
    kind = random.randrange(4)
    if kind == 0:
        return mutated(packet, others, random)
    if kind == 1:
        return _framed(random.choice((0, 1, 2, 255)), mutated(packet[4:], others, random)[:65_000])
    if kind == 2:
        return _framed(random.randrange(2), random.randbytes(random.choice((0, 1, 11, 12, 13, 200))))
    return b""


class _Server:
    """Speaks the script to every client, one after another."""

    def __init__(self, script: dict[str, object]) -> None:
        answers = script["answers"]
        assert isinstance(answers, list)
        self._answers = [b64decode(answer) for answer in answers]
        self._media = b64decode(str(script["media"]))
        self._piece, self._ends = int(str(script["piece"])), script["ends"]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="fuzz-server")

    def __enter__(self) -> str:
        self._thread.start()
        return f"rtsp://127.0.0.1:{self._listener.getsockname()[1]}/cam"

    def __exit__(self, *trouble: object) -> None:
        self._over.set()
        # Closing alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                with client:
                    client.settimeout(0.1)
                    self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        pending = b""
        for number, answer in enumerate(self._answers):
            while b"\r\n\r\n" not in pending:
                if not (more := self._received(client)):
                    return
                pending += more
            request, _, pending = pending.partition(b"\r\n\r\n")
            cseq = _CSEQ.search(request)
            last = number == len(self._answers) - 1
            self._send(client, answer.replace(b"%CSEQ%", cseq[1] if cseq else b"1") + (self._media if last else b""))
        if self._ends == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self._ends == "silence":
            while self._received(client):
                pass

    def _received(self, client: socket.socket) -> bytes:
        """What comes next; nothing when the client is gone, or has been waiting for more for too long."""
        until = time.monotonic() + (60 if self._ends == "silence" else _PATIENCE_SECONDS)
        while not self._over.is_set() and time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                return client.recv(65_536)
        return b""

    def _send(self, client: socket.socket, data: bytes) -> None:
        """All at once, or the first of it in small pieces, slowly."""
        slow = data[: 20 * self._piece]
        for at in range(0, len(slow), max(self._piece, 1)):
            client.sendall(slow[at : at + self._piece])
            if self._over.wait(0.01):
                return
        data = data[len(slow) :]
        while data and not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                data = data[client.send(data) :]
