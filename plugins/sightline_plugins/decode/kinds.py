"""Tell what a URI names: a file, a device, images, or a network stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sightline.graph.fields import is_folder, is_url

DEFAULT_MAX_PIXELS = 8192 * 4320
"""The most pixels of one frame or image that are decoded unless `max_pixels` allows more: 8K."""

PROTOCOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "file": ("file", "crypto"),
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


IMAGE_SUFFIXES = frozenset((".bmp", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_DEVICE = re.compile(r"/dev/(video\d+|v4l/by-(id|path)/[^/]+)")
_PLACEHOLDER = re.compile(r"%(?:0(\d+))?d")


def is_rtsp(uri: str) -> bool:
    """Whether the URI is for the `rtsp` source."""
    return uri.lower().startswith(("rtsp://", "rtsps://"))


def is_device(uri: str) -> bool:
    """Whether the path is one for the `v4l2` source: a camera of this machine."""
    return _DEVICE.fullmatch(uri) is not None


def is_readable_url(uri: str) -> bool:
    """Whether the scheme of a URL is one that is read."""
    return uri.partition("://")[0].lower() in PROTOCOLS


def names_images(uri: str) -> bool:
    """Whether the URI is for the `images` source: an image, a folder, or a glob of images."""
    if is_url(uri):
        return False
    path = Path(uri)
    return path.suffix.lower() in IMAGE_SUFFIXES or is_folder(path) or (is_glob(uri) and not path.suffix)


def is_glob(uri: str) -> bool:
    """Whether a path stands for several files: `*`, `?`, `[...]`, or a number as in `%04d`."""
    return any(mark in uri for mark in "*?[") or _PLACEHOLDER.search(uri) is not None


def glob_of(uri: str) -> str:
    """The glob for a path in which numbers may be written as `%d` or `%04d`."""
    return _PLACEHOLDER.sub(lambda match: "[0-9]" * int(match[1]) if match[1] else "*", uri)
