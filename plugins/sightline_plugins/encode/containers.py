"""The containers that are written: files by their suffix, what is sent to a server by the scheme of its URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Container:
    """A muxer of FFmpeg and the options that keep its files readable at every moment."""

    muxer: str
    options: Mapping[str, str]


CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        ".mp4": Container(
            "mp4",
            {
                "movflags": "hybrid_fragmented+frag_keyframe+delay_moov",
                "frag_duration": "1000000",
                "flush_packets": "1",
            },
        ),
        ".mkv": Container("matroska", {"cluster_time_limit": "1000", "flush_packets": "1"}),
    }
)
"""A piece of a file (fragment, cluster) ends before a key frame, and after a second: in us and in ms."""

SENDERS: Mapping[str, Container] = MappingProxyType(
    {
        "rtsp": Container("rtsp", {"rtsp_transport": "tcp"}),
        "rtsps": Container("rtsp", {"rtsp_transport": "tcp"}),
        "rtmp": Container("flv", {"flvflags": "no_duration_filesize"}),
        "rtmps": Container("flv", {"flvflags": "no_duration_filesize"}),
    }
)
