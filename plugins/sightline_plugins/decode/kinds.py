"""Tell what a URI names: a file, several videos, images, a device, a pipe, or a network stream."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sightline.errors import ConfigurationError
from sightline.graph.fields import STANDARD_STREAM, is_folder, is_there, is_url

DEFAULT_MAX_PIXELS = 8192 * 4320
"""The most pixels of one frame or image that are decoded unless `max_pixels` allows more: 8K."""

PROTOCOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "file": ("file",),
        "http": ("http", "https", "tcp", "tls", "httpproxy", "crypto"),
        "https": ("http", "https", "tcp", "tls", "httpproxy", "crypto"),
        "rtmp": ("rtmp", "tcp"),
        "rtmps": ("rtmps", "rtmp", "tls", "tcp"),
        "rtp": ("rtp", "udp"),
        "rtsp": ("rtsp", "rtp", "udp", "tcp"),
        "rtsps": ("rtsps", "rtsp", "rtp", "udp", "tcp", "tls"),
        "srt": ("srt",),
        "tcp": ("tcp",),
        "udp": ("udp",),
    }
)
"""The schemes that are read, each with the protocols that FFmpeg may use for it."""
CONFINED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"rtsp": ("tcp",), "rtsps": ("tls", "tcp"), "http": ("http", "tcp"), "https": ("https", "tls", "tcp")}
)
"""The schemes that can be confined to networks, each with the protocols that FFmpeg may use for it then. Without `rtsp`
it follows no redirect of an RTSP server.
"""

IMAGE_SUFFIXES = frozenset((".bmp", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
VIDEO_SUFFIXES = frozenset(
    (
        *(".3gp", ".264", ".265", ".asf", ".avi", ".divx", ".flv", ".h264", ".h265", ".hevc", ".ivf", ".m2ts", ".m4v"),
        *(".mjpeg", ".mjpg", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".ts", ".vob", ".webm"),
        ".wmv",
    )
)
"""What names of videos end with, in folders and in globs without a suffix of their own."""
_DEVICE = re.compile(r"/dev/(video\d+|v4l/by-(id|path)/[^/]+)")
_DIGITS = re.compile(r"(\d+)")
_PLACEHOLDER = re.compile(r"%(?:0(\d+))?d")


def is_rtsp(uri: str) -> bool:
    """Whether the URI is for the `rtsp` source."""
    return uri.lower().startswith(("rtsp://", "rtsps://"))


def is_device(uri: str) -> bool:
    """Whether the path is one for the `v4l2` source: a camera of this machine."""
    return _DEVICE.fullmatch(uri) is not None


def is_pipe(uri: str) -> bool:
    """Whether the URI is for the `pipe` source: standard input (`-`), or the path of a named pipe."""
    if uri == STANDARD_STREAM:
        return True
    try:
        return not is_url(uri) and stat.S_ISFIFO(Path(uri).stat().st_mode)
    except (OSError, ValueError):
        return False


def name_of_pipe(uri: str) -> str:
    """What people call a pipe: one name for all paths to it."""
    return "standard input" if uri == STANDARD_STREAM else f"the pipe {os.path.realpath(uri)}"


def is_readable_url(uri: str) -> bool:
    """Whether the scheme of a URL is one that is read."""
    return uri.partition("://")[0].lower() in PROTOCOLS


def names_images(uri: str) -> bool:
    """Whether the URI is for the `images` source: an image, a folder without videos, or a glob of images."""
    if is_url(uri):
        return False
    if not _is_several(uri):
        return Path(uri).suffix.lower() in IMAGE_SUFFIXES
    if suffix := _suffix_of_glob(uri):
        return suffix in IMAGE_SUFFIXES
    try:
        return VIDEO_SUFFIXES.isdisjoint(path.suffix.lower() for path in files_of(uri))
    except OSError:  # reported by the check of the inputs
        return True


def videos_of(uri: str) -> list[Path] | None:
    """The videos of a folder or a glob, in natural order; None where the URI is not for several videos.

    Raises ConfigurationError when there are images beside the videos.
    """
    if is_url(uri) or is_device(uri) or not _is_several(uri) or names_images(uri):
        return None
    found = files_of(uri)
    if _suffix_of_glob(uri):
        return found
    videos = [path for path in found if path.suffix.lower() in VIDEO_SUFFIXES]
    images = [path for path in found if path.suffix.lower() in IMAGE_SUFFIXES]
    if videos and images:
        globs = " or ".join(str(kind[0].parent / f"*{kind[0].suffix}") for kind in (videos, images))
        raise ConfigurationError(
            f"{uri} holds videos ({videos[0].name}) and images ({images[0].name}): name one kind, such as {globs}"
        )
    return videos


def files_of(uri: str) -> list[Path]:
    """The files of a folder, a glob or a single path, in natural order: `frame9` before `frame10`. Raises OSError.

    Hidden files, and files in hidden folders, belong to a folder or glob only if the path itself names them.
    """
    path = Path(uri)
    if is_folder(path):
        found = list(path.iterdir())
    elif is_there(path) or not is_glob(uri):
        found = [path]
    else:
        found = list(Path(path.anchor).glob(glob_of(str(path.relative_to(path.anchor)))))
    named = set(path.parts)
    visible = (one for one in found if not any(part.startswith(".") and part not in named for part in one.parts))
    return sorted((one for one in visible if one.is_file()), key=_natural)


def is_glob(uri: str) -> bool:
    """Whether a path stands for several files: `*`, `?`, `[...]`, or a number as in `%04d`."""
    return any(mark in uri for mark in "*?[") or _PLACEHOLDER.search(uri) is not None


def glob_of(uri: str) -> str:
    """The glob for a path in which numbers may be written as `%d` or `%04d`."""
    return _PLACEHOLDER.sub(lambda match: "[0-9]" * int(match[1]) if match[1] else "*", uri)


def _is_several(uri: str) -> bool:
    """Whether a path is a folder, or a glob and not the name of a file."""
    path = Path(uri)
    return is_folder(path) or (is_glob(uri) and not is_there(path))


def _suffix_of_glob(uri: str) -> str:
    """The suffix in which a glob says what its files are; empty for a folder, `clips/*` and `clips/*.*`."""
    path = Path(uri)
    return "" if is_folder(path) or is_glob(path.suffix) else path.suffix.lower()


def _natural(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(str(path).lower()) if part
    ] + [(-1, str(path))]
