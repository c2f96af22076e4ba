"""Elements of GStreamer, with their properties, in the words of deepstream-app.

A `gst-launch-1.0` line and a service-maker file name elements; deepstream-app names sections that make the same
elements. So an element becomes a section, and each of its properties the key that sets it, reported as it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sightline.graph.wording import suggest
from sightline_plugins.deepstream_import.outcomes import KeyOutcome, Outcome, Outcomes
from sightline_plugins.deepstream_import.sections import Configuration, Entry, Section
from sightline_plugins.deepstream_import.source_text import Place

_MODEL = {
    "config-file-path": "config-file",
    "unique-id": "gie-unique-id",
    "infer-on-gie-id": "operate-on-gie-id",
    "infer-on-class-ids": "operate-on-class-ids",
    "bbox-border-color": "bbox-border-color0",
}
_SOURCE = {"location": "uri", "device": "uri", "protocols": "select-rtp-protocol", "udp-reconnect": "leaky"}
_SOURCE |= {"rtsp-reconnect-interval": "rtsp-reconnect-interval-sec", "smart-rec-video-cache": "smart-rec-cache"}
_SOURCE |= {"init-rtsp-reconnect-interval": "init-rtsp-reconnect-interval-sec"}
_SCREEN = {"window-x": "offset-x", "window-y": "offset-y"}
_FILE = {"location": "output-file"}
_ENCODER = {"insert-sps-pps": "profile", "idrinterval": "iframeinterval", "key-int-max": "iframeinterval"}
_ENCODER |= {"speed-preset": "sw-preset", "tune": "sw-preset", "preset-level": "sw-preset", "preset-id": "sw-preset"}

_SECTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    **dict.fromkeys(("uridecodebin", "uridecodebin3", "nvurisrcbin", "urisourcebin", "nvurisrc"), ("source", _SOURCE)),
    **dict.fromkeys(
        ("filesrc", "rtspsrc", "v4l2src", "nvv4l2camerasrc", "rtmpsrc", "souphttpsrc"), ("source", _SOURCE)
    ),
    "nvarguscamerasrc": ("source", {"sensor-id": "camera-csi-sensor-id", "sensor-mode": "camera-csi-sensor-mode"}),
    "nvmultiurisrcbin": (
        "source-list",
        {"uri-list": "list", "ip-address": "http-ip", "port": "http-port", "max-batch-size": "max-batch-size"},
    ),
    "nvstreammux": ("streammux", {"nvbuf-memory-type": "nvbuf-memory-type"}),
    **dict.fromkeys(("nvinfer", "nvinferbin"), ("primary-gie", _MODEL)),
    **dict.fromkeys(("nvinferserver", "nvinferserverbin"), ("primary-gie", _MODEL)),
    **dict.fromkeys(("nvtracker", "nvtrackerbin"), ("tracker", {"compute-hw": "compute-hw"})),
    "nvdsanalytics": ("nvds-analytics", {}),
    "nvdspreprocess": ("pre-process", {}),
    "nvmultistreamtiler": ("tiled-display", {}),
    **dict.fromkeys(
        ("nvdsosd", "nvosdbin"), ("osd", {"display-clock": "show-clock", "clock-font-size": "clock-text-size"})
    ),
    "nvmsgconv": (
        "message-converter",
        {
            "config": "msg-conv-config",
            "payload-type": "msg-conv-payload-type",
            "msg2p-lib": "msg-conv-msg2p-lib",
            "msg2p-newapi": "msg-conv-msg2p-new-api",
            "frame-interval": "msg-conv-frame-interval",
            "comp-id": "msg-conv-comp-id",
            "dummy-payload": "msg-conv-dummy-payload",
        },
    ),
    "nvmsgbroker": (
        "sink",
        {
            "proto-lib": "msg-broker-proto-lib",
            "conn-str": "msg-broker-conn-str",
            "config": "msg-broker-config",
            "comp-id": "msg-broker-comp-id",
        },
    ),
    **dict.fromkeys(("nveglglessink", "nv3dsink", "nvdrmvideosink", "autovideosink", "ximagesink"), ("sink", _SCREEN)),
    **dict.fromkeys(("xvimagesink", "glimagesink", "fpsdisplaysink", "nvoverlaysink"), ("sink", _SCREEN)),
    "fakesink": ("sink", {}),
    **dict.fromkeys(("filesink", "nvvideoencfilesinkbin"), ("sink", _FILE)),
    **dict.fromkeys(
        ("udpsink", "rtspclientsink", "nvrtspoutsinkbin"), ("sink", {"port": "udp-port", "location": "host"})
    ),
}
_KINDS = {
    "filesink": "3",
    "nvvideoencfilesinkbin": "3",
    "fakesink": "1",
    "udpsink": "4",
    "rtspclientsink": "4",
    "nvrtspoutsinkbin": "4",
    "nvmsgbroker": "6",
    "nvarguscamerasrc": "5",
}
_PACED = ("2", "4")
"""Sinks that play at the speed of the timestamps unless `sync` is off: windows, and what is sent."""
_ENCODERS = {
    **dict.fromkeys(("nvv4l2h264enc", "x264enc", "openh264enc", "vah264enc", "vaapih264enc", "nvh264enc"), "1"),
    **dict.fromkeys(("nvv4l2h265enc", "x265enc", "vah265enc", "vaapih265enc", "nvh265enc"), "2"),
    **dict.fromkeys(("mpeg4enc", "avenc_mpeg4"), "3"),
}
_SOFTWARE = ("x264enc", "x265enc", "openh264enc", "mpeg4enc", "avenc_mpeg4")
_THOUSANDS = ("x264enc", "x265enc", "vah264enc", "vah265enc", "vaapih264enc", "vaapih265enc", "nvh264enc", "nvh265enc")
"""Encoders whose `bitrate` is in thousands of bits a second."""
_MUXERS = {**dict.fromkeys(("qtmux", "mp4mux", "qtmoovrecover"), "1"), "matroskamux": "2"}
NEEDLESS = frozenset(
    (
        *(
            "queue",
            "queue2",
            "tee",
            "capsfilter",
            "identity",
            "valve",
            "multiqueue",
            "decodebin",
            "decodebin3",
            "parsebin",
        ),
        *("h264parse", "h265parse", "mpeg4videoparse", "jpegparse", "av1parse", "qtdemux", "matroskademux", "tsdemux"),
        *("rtph264depay", "rtph265depay", "rtph264pay", "rtph265pay", "rtpjpegdepay", "nvv4l2decoder", "nvjpegdec"),
        *(
            "avdec_h264",
            "avdec_h265",
            "avdec_mjpeg",
            "openh264dec",
            "jpegdec",
            "vah264dec",
            "vah265dec",
            "vaapidecodebin",
        ),
        *("nvvideoconvert", "nvvidconv", "videoconvert", "videoscale", "videorate", "vapostproc", "vaapipostproc"),
        *("nvstreamdemux", "nvegltransform", "aspectratiocrop", "deinterlace", "streamiddemux", "nvdslogger"),
        *("gvafpscounter", "gvametaaggregate", "perf", "progressreport"),
    )
)
"""Elements whose work the runtime, the source or the encoder does here."""
_ENABLED = ("sink", "source", "osd", "tracker", "tiled-display", "nvds-analytics", "pre-process", "message-converter")
_RTSP = ("rtsp://", "rtsps://")


@dataclass(slots=True)
class GstElement:
    """An element with its properties, in the order in which they stand."""

    kind: str
    place: Place
    properties: dict[str, Entry] = field(default_factory=dict)

    def set(self, key: str, value: str, place: Place) -> None:
        """Set a property; true and false are 1 and 0, as in deepstream-app's files."""
        plain = {"true": "1", "false": "0"}.get(value.lower(), value)
        self.properties[key] = Entry(key, plain, place, (self.kind, key))

    def text(self, key: str) -> str:
        """Return a property as text; empty where it is not set."""
        entry = self.properties.get(key)
        return "" if entry is None else entry.value


@dataclass(slots=True)
class _Encoded:
    """What encoder and muxer said, until a sink ends their branch."""

    entries: list[Entry] = field(default_factory=list)


def to_sections(elements: Iterable[GstElement], path: Path, outcomes: Outcomes) -> Configuration:
    """Return elements as the sections of deepstream-app; those that become none are reported."""
    made = Configuration(path)
    encoded, counts = _Encoded(), dict.fromkeys(("source", "sink", "primary-gie"), 0)
    for element in elements:
        if element.kind in _SECTIONS:
            _add(element, made, encoded, counts)
        elif element.kind in _ENCODERS or element.kind in _MUXERS:
            _remember(element, encoded)
        elif element.kind in NEEDLESS or "/" in element.kind:
            _report(element, outcomes, Outcome.NO_EFFECT, "the runtime does its work: it needs no step")
        else:
            near = suggest(element.kind, [*_SECTIONS, *_ENCODERS, *_MUXERS, *NEEDLESS])
            _report(element, outcomes, Outcome.UNKNOWN, f"no step is known for this element{near}")
    return made


def _report(element: GstElement, outcomes: Outcomes, outcome: Outcome, text: str) -> None:
    outcomes.add(KeyOutcome(outcome, element.place, element.kind, "", "", text))
    for entry in element.properties.values():
        outcomes.add(KeyOutcome(outcome, entry.place, element.kind, entry.key, entry.value, text))


def _add(element: GstElement, made: Configuration, encoded: _Encoded, counts: dict[str, int]) -> None:
    name, keys = _SECTIONS[element.kind]
    if name in counts:
        number = counts[name]
        counts[name] += 1
        name = "primary-gie" if name == "primary-gie" and number == 0 else f"{name}{number}"
    section = made.section(name, element.place)
    for key, entry in element.properties.items():
        section.add(Entry(keys.get(key, key), entry.value, entry.place, entry.given_as))
    plain = name.rstrip("0123456789")
    if plain in _ENABLED or plain == "primary-gie":
        section.entries.setdefault("enable", Entry("enable", "1", element.place, ()))
    if plain == "sink":
        kind = _KINDS.get(element.kind, "2")
        section.entries.setdefault("type", Entry("type", kind, element.place, ()))
        section.entries.setdefault("sync", Entry("sync", str(int(kind in _PACED)), element.place, ()))
        for entry in encoded.entries:
            section.entries.setdefault(entry.key, entry)
        encoded.entries.clear()
    elif plain == "source":
        _set_kind(element, section)
    elif plain == "primary-gie" and "server" in element.kind:
        section.entries.setdefault("plugin-type", Entry("plugin-type", "1", element.place, ()))
    for key in ("operate-on-class-ids", "list"):
        if key in section.entries:  # nvinfer separates them by colons, nvmultiurisrcbin by commas
            entry = section.entries[key]
            value = entry.value.replace(":" if key == "operate-on-class-ids" else ",", ";")
            section.entries[key] = Entry(key, value, entry.place, entry.given_as)


def _set_kind(element: GstElement, section: Section) -> None:
    uri = section.entries.get("uri")
    kind = _KINDS.get(element.kind, "2")
    if uri is not None and uri.value.lower().startswith(_RTSP):
        kind = "4"
    if element.kind in ("v4l2src", "nvv4l2camerasrc") and uri is None:
        section.add(Entry("uri", "/dev/video0", element.place, ()))
    section.entries.setdefault("type", Entry("type", kind, element.place, ()))
    protocols = section.entries.get("select-rtp-protocol")
    if protocols is not None and not protocols.value.isdigit():
        number = "4" if protocols.value == "tcp" else "0"
        section.entries["select-rtp-protocol"] = Entry(
            "select-rtp-protocol", number, protocols.place, protocols.given_as
        )


def _remember(element: GstElement, encoded: _Encoded) -> None:
    if element.kind in _MUXERS:
        encoded.entries.append(Entry("container", _MUXERS[element.kind], element.place, (element.kind, "")))
        return
    encoded.entries.append(Entry("codec", _ENCODERS[element.kind], element.place, (element.kind, "")))
    if element.kind in _SOFTWARE:
        encoded.entries.append(Entry("enc-type", "1", element.place, ()))
    for key, entry in element.properties.items():
        value = entry.value
        if key == "bitrate" and element.kind in _THOUSANDS and value.isdigit():
            value = f"{value}000"
        encoded.entries.append(Entry(_ENCODER.get(key, key), value, entry.place, entry.given_as))
