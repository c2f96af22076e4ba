"""Which schemes are read, and what FFmpeg may use for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
