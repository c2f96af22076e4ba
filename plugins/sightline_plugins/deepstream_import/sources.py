"""Sources of deepstream-app, source lists and CSV files: streams with names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage, duration, safe_name
from sightline_plugins.deepstream_import.sections import Configuration, Entry, Section
from sightline_plugins.deepstream_import.settings import Settings
from sightline_plugins.deepstream_import.source_text import Place, is_file, read_source_text
from sightline_plugins.deepstream_import.tables.application import SOURCE, SOURCE_LIST

_V4L2, _URI, _MULTI_URI, _RTSP, _CSI, _IPC = 1, 2, 3, 4, 5, 9
_CAMERA_SCHEMES = ("rtsp", "rtsps")
_TRANSPORTS = {0: "auto", 1: "udp", 2: "udp", 4: "tcp", 7: "auto"}
"""By GStreamer's GstRTSPLowerTrans; 0 and 7 try UDP first, then TCP."""
_FILE = "file:"
_ITEM = re.compile(r"(\d+)\.(uri|sensor-id|sensor-name)")
MAX_STREAMS = 1000


def add_sources(configuration: Configuration, imported: Import, *, realtime: bool, loop: bool) -> None:
    """Add the streams of all sources of a configuration. `realtime` and `loop` are for those that are files."""
    common = _common(configuration)
    for number, section in configuration.numbered("source"):
        settings = Settings(_with_common(section, common), SOURCE, imported.outcomes)
        if not settings.is_enabled:
            settings.close(because="the source is switched off")
            continue
        before = len(imported.plan.sources)
        _add_source(settings, imported, number)
        imported.plan.streams_of[number] = imported.plan.streams[before:]
        settings.close()
    for section in configuration.named("source-list", "source"):
        _add_list(Settings(section, SOURCE_LIST, imported.outcomes), imported, common)
    for section in configuration.named("source-attr-all"):
        Settings(section, SOURCE, imported.outcomes).close()
    if not imported.plan.streams_of:
        imported.plan.streams_of = {number: [name] for number, name in enumerate(imported.plan.streams)}
    for name, options in imported.plan.sources.items():
        if "://" in options["uri"] or options["uri"].startswith("/dev/"):
            continue
        imported.plan.sources[name] = {
            **options,
            **({"realtime": True} if realtime else {}),
            **({"loop": True} if loop else {}),
        }


def _common(configuration: Configuration) -> Mapping[str, Entry]:
    section = configuration.sections.get("source-attr-all")
    return {} if section is None else section.entries


def _with_common(section: Section, common: Mapping[str, Entry]) -> Section:
    """Return a section with the settings of all sources behind its own, which are reported where they stand."""
    if not common:
        return section
    return Section(
        section.name,
        section.place,
        {**section.entries, **{k: v for k, v in common.items() if k not in section.entries}},
    )


def _add_source(settings: Settings, imported: Import, number: int) -> None:
    kind = settings.whole("type", _URI)
    if kind == _IPC:
        settings.note("type", Outcome.IMPOSSIBLE, "streams of other processes are not taken: give the camera itself")
        return
    if kind in (_V4L2, _CSI):
        imported.plan.sources[_name(settings, imported, f"source{number}")] = _camera(settings, kind)
        return
    if kind not in (_URI, _MULTI_URI, _RTSP):
        raise settings.error("type", "must be 1 (V4L2), 2 (URI), 3 (several URIs), 4 (RTSP), 5 (CSI) or 9 (IPC)")
    uri = settings.text("uri")
    if not uri:
        raise settings.place("type").error(f"[{settings.name}] names no uri")
    count = settings.whole("num-sources", 1) if kind == _MULTI_URI else 1
    if not 0 < count <= MAX_STREAMS:
        raise settings.error("num-sources", f"must be 1 to {MAX_STREAMS}")
    for index in range(count):
        name = _name(settings, imported, f"source{number}" if count == 1 else f"source{number}-{index}")
        one = uri.replace("%d", str(index)) if kind == _MULTI_URI else uri
        imported.plan.sources[name] = _stream(settings, imported, one, name)


def _name(settings: Settings, imported: Import, default: str) -> str:
    given = settings.text("sensor-name") or settings.text("sensor-id")
    name = safe_name(given, default=default)
    return name if name not in imported.plan.sources else default


def _camera(settings: Settings, kind: int) -> dict[str, Any]:
    node = settings.whole("camera-v4l2-dev-node" if kind == _V4L2 else "camera-csi-sensor-id", 0)
    options: dict[str, Any] = {"uri": f"/dev/video{node}"}
    width, height = settings.whole("camera-width", 0), settings.whole("camera-height", 0)
    if width > 0 and height > 0:
        options["size"] = [width, height]
    rate, per = settings.number("camera-fps-n", 0), settings.number("camera-fps-d", 1)
    if rate > 0 and per > 0:
        options["fps"] = round(rate / per, 3)
    if kind == _CSI:
        text = "CSI cameras need NVIDIA's driver; a V4L2 device is written for it: put there the camera that you have"
        settings.note("type", Outcome.IMPOSSIBLE, text)
    return options


def _stream(settings: Settings, imported: Import, uri: str, name: str) -> dict[str, Any]:
    options = source_options(uri, settings.section.place.file.parent, imported, name)
    is_camera = uri.partition("://")[0].lower() in _CAMERA_SCHEMES
    if "select-rtp-protocol" in settings:
        transport = _TRANSPORTS.get(settings.whole("select-rtp-protocol", 4))
        if is_camera and transport is not None:
            options["transport"] = transport
    seconds = settings.number("rtsp-reconnect-interval-sec", 0)
    if "rtsp-reconnect-interval-sec" in settings:
        if is_camera and seconds > 0:
            options["stall_timeout"] = duration(seconds)
        else:
            text = "a camera that is lost is always connected again (5 s without data)" if is_camera else "no camera"
            settings.note("rtsp-reconnect-interval-sec", Outcome.NO_EFFECT, text)
    if is_camera and (attempts := settings.whole("rtsp-reconnect-attempts", -1)) > 0:
        options["max_reconnect_time"] = duration(attempts * (seconds or 5))
    if settings.whole("smart-record", 0):
        _record(settings, imported, name)
    return options


def _record(settings: Settings, imported: Import, name: str) -> None:
    folder = settings.text("smart-rec-dir-path", "out")
    prefix = safe_name(settings.text("smart-rec-file-prefix", "Smart_Record"), default="Smart_Record")
    suffix = ".mkv" if settings.whole("smart-rec-container", 0) == 1 else ".mp4"
    before = settings.number("smart-rec-start-time", 5)
    after = settings.number("smart-rec-duration", settings.number("smart-rec-default-duration", 10))
    imported.plan.add(
        Stage.RESULTS,
        "record",
        {
            "streams": [name],
            "path": f"{output_folder(folder)}/{prefix}-{{stream}}-{{time}}.mp4".replace(".mp4", suffix),
            "before": duration(before),
            "after": duration(after),
        },
        "Smart record: `pipeline.record` starts it, and `on: lines.NAME` lets each event of a rule do so.",
    )


def output_folder(text: str) -> str:
    """Return a folder for outputs; one that leaves the working directory upwards becomes one of that name in `out`."""
    path = Path(text.strip("\"'"))
    if path.is_absolute() or ".." not in path.parts:
        return str(path)
    return str(Path("out", path.name if path.name != ".." else ""))


def source_options(uri: str, folder: Path, imported: Import, name: str) -> dict[str, Any]:
    """Return the options of a stream. Relative files start at `folder`; those that are missing are reported."""
    scheme, is_url, _ = uri.partition("://")
    if is_url and scheme.lower() != "file":
        return {"uri": imported.without_password(uri, name=name)}
    plain = uri.removeprefix(_FILE).removeprefix("//")
    if plain.startswith("/dev/"):
        return {"uri": plain}
    path = folder / plain
    if not _is_there(path) and not any(one in plain for one in "*?%"):
        imported.outcomes.missing.append(f"{path}: the video of {name} is not there")
    return {"uri": imported.input_path(path)}


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _add_list(settings: Settings, imported: Import, common: Mapping[str, Entry]) -> None:
    """Add the streams of `[source-list]`, or of the CSV file that it names."""
    if not settings.is_enabled:
        settings.close(because="the list is switched off")
        return
    names = [part.strip() for part in (settings.text("sensor-name-list") or settings.text("sensor-id-list")).split(";")]
    for number, uri in enumerate(part.strip() for part in settings.text("list").split(";") if part.strip()):
        default = f"source{len(imported.plan.sources)}"
        given = names[number] if number < len(names) else ""
        name = safe_name(given, default=default)
        name = name if name not in imported.plan.sources else default
        shared = Settings(Section(settings.name, settings.section.place, dict(common)), SOURCE, imported.outcomes)
        imported.plan.sources[name] = _stream(shared, imported, uri, name)
    _add_items(settings, imported)
    if size := settings.whole("max-batch-size", 0):
        imported.plan.batch["size"] = size
    if named := settings.text("csv-file-path"):
        path = settings.section.place.file.parent / named
        if is_file(path):
            for number, section in enumerate(_rows(path)):
                _add_row(section, imported, number)
        else:
            imported.outcomes.missing.append(f"{path}: the list of sources is not there")
    settings.close()


def _add_items(settings: Settings, imported: Import) -> None:
    """Add the streams of service-maker's list, `- {uri: ..., sensor-id: ..., sensor-name: ...}` each."""
    items: dict[int, dict[str, str]] = {}
    for key in list(settings.section.entries):
        if match := _ITEM.fullmatch(key):
            items.setdefault(int(match[1]), {})[match[2]] = settings.text(key)
    for item in items.values():
        if uri := item.get("uri"):
            default = f"source{len(imported.plan.sources)}"
            name = safe_name(item.get("sensor-name") or item.get("sensor-id", ""), default=default)
            name = name if name not in imported.plan.sources else default
            folder = settings.section.place.file.parent
            imported.plan.sources[name] = source_options(uri, folder, imported, name)


def _add_row(section: Section, imported: Import, number: int) -> None:
    settings = Settings(section, SOURCE, imported.outcomes)
    if not settings.is_enabled:
        settings.close(because="the source is switched off")
        return
    before = len(imported.plan.sources)
    _add_source(settings, imported, number)
    imported.plan.streams_of[number] = imported.plan.streams[before:]
    settings.close()


def _rows(path: Path) -> Iterator[Section]:
    """Yield the lines of a CSV file as sections; the first line has the keys. Raises ConfigurationError."""
    lines = read_source_text(path).text.splitlines()
    rows = csv.reader(lines)
    keys = [key.strip() for key in next(rows, [])]
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        place = Place(path, rows.line_num)
        if len(row) != len(keys):
            raise place.error(
                f"{len(keys)} values are expected, one for each of {', '.join(keys)}; there are {len(row)}"
            )
        section = Section(f"source{rows.line_num - 2}", place)
        for key, cell in zip(keys, row, strict=True):
            section.add(Entry(key, cell.strip(), place))
        yield section
