"""Sources: where frames come from. One reader is one attempt; trying again is the runtime's business."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from sightline.graph.described import Described
from sightline.graph.site import Site
from sightline.media import Frame, Stream


class SourceReader:
    """One attempt at reading one stream.

    It is built, read and closed by one thread. `frames` yields frames in presentation order and returns when the
    stream has ended; it raises StreamUnreadable when the input cannot be read at all (StreamRefused when its server
    says so), StreamLost when it broke off and StreamStalled when it fell silent. The counters may be read from other
    threads at any time.
    """

    frame_count: int | None = None
    """How many frames the input says it holds, once it is open; for progress only."""
    damaged_packets: int = 0
    """Packets that did not decode."""
    skipped_frames: int = 0
    """Frames left out on request (`max_fps`)."""
    lost_packets: int = 0
    """Packets that the network lost, as their numbers tell."""
    repaired_timestamps: int = 0
    """Frames whose timestamp was missing, did not rise or was off the clock, and was put right."""
    codec: str | None = None
    """What the stream is encoded with, once it is open."""
    audio: str | None = None
    """What its sound is encoded with, once it is open; None without sound, and where sound is not looked for."""
    decoder: str | None = None
    """What decodes it, `cpu` or `nvdec`, once that is known."""
    decoder_reason: str | None = None
    """Why it is decoded by the CPU although the run has a GPU, or what is put right of its decoding by NVDEC."""
    silence_limit_ns: int | None = None
    """How long nothing may come before the stream counts as stalled; set by the runtime, which measures the stream's
    own interval. None: as long as the element says.
    """
    is_stopping = False
    """Whether nobody wants more frames."""

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of the stream, indices from 0."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask for no more frames: `frames` ends soon, also while it waits for its input. From any thread."""
        self.is_stopping = True

    def close(self) -> None:
        """Release the input; harmless when called again, or before the first frame."""


class SourceElement(Described):
    """One input of a pipeline, as it is described; fields are exactly the YAML keys of its kind."""

    name: ClassVar[str]
    priority: ClassVar[int] = 0
    """Which source reads a URI that several accept: the one with the highest priority. First-party sources have 0."""

    realtime: bool = False
    """Deliver frames at the speed of their timestamps instead of as fast as possible."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Return whether this source reads that URI. `priority` decides between several that do."""
        del uri
        return False

    def split(self) -> Mapping[str, Self] | None:
        """Return one source for each stream, such as each video of a folder, by the ending of the stream's name; None
        when this source is one stream. Raises ConfigurationError when there is none.
        """
        return None

    @property
    def takes_turns(self) -> bool:
        """Whether it waits until no other source that takes turns is read: files one after another. Not for live
        sources.
        """
        return False

    @property
    def live(self) -> bool:
        """Whether frames come whether or not they are wanted: a camera. Live streams drop the oldest frame when the
        pipeline is slow, and are tried again when they are lost.
        """
        return False

    @property
    def read_once(self) -> str | None:
        """What it reads when only one stream can: standard input, a named pipe. None for what several may read."""
        return None

    def reason_against_processes(self) -> str | None:
        """Why a worker process cannot read it; None when it can."""
        return None

    @property
    def stall_ns(self) -> int | None:
        """How long a live stream may be silent before it counts as stalled; None when that is not watched."""
        return None

    @property
    def gives_up_ns(self) -> int | None:
        """After how long without a frame a live stream is given up; None: never."""
        return None

    @property
    def skips_damaged(self) -> bool:
        """Whether damaged frames are dropped (and counted) instead of handed on."""
        return False

    def gpu_memory_bytes(self) -> int:
        """About how much of a GPU's memory the stream will take, 0 for none or when that is not known. It may look at a
        file, and asks no camera.
        """
        return 0

    def pixels_per_second(self) -> float:
        """About how many pixels the stream has a second, at its own speed; 0 when that is not known. It may look at a
        file, and asks no camera. Streams are dealt out to processes by it.
        """
        return 0.0

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt. Opening the input may wait until `frames` is called."""
        raise NotImplementedError

    def build_to_test(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader that is asked for a first image only, to tell a person what there is: also of `audio`, which
        costs a camera more.
        """
        return self.build(site, stream=stream)
