"""gst-rtsp-server as a camera that was not written here; tests skip where Debian's packages are missing."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conftest import missing

from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.commands.camera.clip import Clip

PYTHON = "/usr/bin/python3"
SERVER = Path(__file__).with_name("gst_server.py")
PACKAGES = "gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-{base,good,bad} gstreamer1.0-tools python3-gi"
_IMPORT = (
    "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import Gst, GstRtspServer; "
    "Gst.init(None); "
    "assert all(Gst.ElementFactory.find(n) for n in ('appsrc', 'h264parse', 'h265parse', 'rtph264pay', 'rtpjpegpay'))"
)


@functools.cache
def has_gst_server() -> bool:
    """Whether the system's Python can serve."""
    try:
        return subprocess.run([PYTHON, "-c", _IMPORT], capture_output=True, timeout=300, check=False).returncode == 0
    except FileNotFoundError:
        return False


class GstCamera:
    """A process of its own that shows a clip at `url`, round and round, at its rate.

    `kill` and `freeze` are the signals SIGKILL and SIGSTOP, the plainest ways to die and to hang.
    """

    def __init__(self, clip: Clip, *, folder: Path, credentials: str | None = None) -> None:
        if not has_gst_server():
            missing(f"no gst-rtsp-server for {PYTHON} (apt-get install {PACKAGES})")
        self._path = folder / "units.bin"
        self._path.write_bytes(b"".join(_unit(clip, number) for number in range(len(clip.packets))))
        self._clip, self._credentials = clip, credentials
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it is, without credentials."""
        return f"rtsp://127.0.0.1:{self.port}/cam"

    @property
    def login_url(self) -> str:
        """The same with credentials."""
        return self.url if self._credentials is None else self.url.replace("//", f"//{self._credentials}@", 1)

    def start(self) -> None:
        """Start the process, on the port that it had before, and wait until it listens."""
        clip = self._clip
        size = "x".join(map(str, clip.size_wh))
        command = [PYTHON, str(SERVER), str(self._path), clip.codec, str(round(clip.fps)), size, str(self.port)]
        command += self._credentials.split(":") if self._credentials is not None else []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def freeze(self) -> None:
        """Stop the process: sockets stay open, nothing comes."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)


def _unit(clip: Clip, number: int) -> bytes:
    packet = clip.packets[number]
    data = (annex_b(clip.parameter_sets) if packet.is_key else b"") + packet.data
    return len(data).to_bytes(4, "big") + data
