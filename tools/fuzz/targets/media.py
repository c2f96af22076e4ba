"""Video files: clips of ours in six containers, cut short, and small ones of the shared data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import av

from sightline.devices import Device
from sightline.errors import StreamError
from sightline.graph import Site
from sightline.media import Stream
from sightline_plugins import Media
from tools.fuzz.mutations import mutated
from tools.fuzz.targets.target import Mutant, Trouble

SAMPLES = Path(__file__).resolve().parents[3] / "sample_videos"
_PACKETS = 24
_MOST_FRAMES = 2_000
_LARGEST_ORIGINAL = 60_000
_MAX_PIXELS = 2_000_000
_RING_NS, _RING_BYTES = 1_000_000_000, 1_000_000
_CONTAINERS: Mapping[str, Mapping[str, str]] = {
    "whole.mp4": {},
    "parts.mp4": {"movflags": "frag_keyframe+empty_moov"},
    **{f"a.{kind}": {} for kind in ("mkv", "ts", "flv", "mov")},
}


class MediaTarget:
    """Read to the end by the `media` source: frames, or an error of the stream, and nothing else."""

    extra_mib = 1_024
    """Reference images of the largest size that `max_pixels` lets through are most of it."""

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        originals = [path for name in ("street.mp4", "entrance.mp4") for path in _excerpts(SAMPLES / name, folder)]
        if shared is not None:
            found = sorted((shared / "videos").glob("[ch]o*/*"))
            originals += [path for path in found if path.stat().st_size <= _LARGEST_ORIGINAL]
        self._originals = [Mutant(path.read_bytes(), path.suffix) for path in originals]

    def mutant(self, random: Random) -> Mutant:
        """A file of ours or of the shared data, spliced with others."""
        original = random.choice(self._originals)
        data = mutated(original.data, [other.data for other in self._originals], random)
        return Mutant(data, original.suffix)

    def exercise(self, path: Path) -> str:
        """`frames` or `refused`."""
        site, stream = Site(device=Device()), Stream("fuzz")
        site.packets.want(None, duration_ns=_RING_NS, limit_bytes=_RING_BYTES)
        reader = Media(uri=str(path), max_pixels=_MAX_PIXELS).build(site, stream=stream)
        count = 0
        try:
            with closing(reader):
                for count, frame in enumerate(reader.frames(), 1):
                    if frame.index != count - 1:
                        raise Trouble(f"frame {count - 1} is numbered {frame.index}")
                    if count >= _MOST_FRAMES:
                        break
        except StreamError:
            return "refused" if count == 0 else "broke off"
        return "frames"


def _excerpts(path: Path, folder: Path) -> list[Path]:
    """The first second of a clip, its packets as they are, in each container."""
    written = []
    for name, options in _CONTAINERS.items():
        to = folder / f"{path.stem}-{name}"
        with av.open(str(path)) as clip, av.open(str(to), "w", options=dict(options)) as container:
            stream = container.add_stream_from_template(clip.streams.video[0])
            for packet, _ in zip(clip.demux(video=0), range(_PACKETS), strict=False):
                if packet.dts is not None:
                    packet.stream = stream
                    container.mux(packet)
        written.append(to)
    return written
