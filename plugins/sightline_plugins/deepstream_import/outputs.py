"""Sinks of deepstream-app: video files, live video, and messages to brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage, Template
from sightline_plugins.deepstream_import.sections import Configuration
from sightline_plugins.deepstream_import.sensors import sensors_of
from sightline_plugins.deepstream_import.settings import Settings, report_unknown_section
from sightline_plugins.deepstream_import.sources import output_folder
from sightline_plugins.deepstream_import.tables.application import OSD, TILED_DISPLAY
from sightline_plugins.deepstream_import.tables.outputs import (
    BROKER,
    MESSAGE_CONSUMER,
    MESSAGE_CONVERTER,
    SINK,
)

_FAKE, _SCREEN, _FILE, _LIVE, _OVERLAY, _MESSAGES = 1, 2, 3, 4, 5, 6
_MKV, _H265, _MPEG4, _SOFTWARE = 2, 2, 3, 1
_RTSP_PORT = 8554
_MIN_SIDE = 64
_MESSAGE_INTERVAL = 30
"""Frames for each message of nvmsgconv, unless it is set."""
_FORMATS: Mapping[int, tuple[str, str]] = {
    0: ("objects", "deepstream"),
    1: ("frames", "deepstream_minimal"),
    2: ("frames", "protobuf"),
}
_OTHER_FORMAT = ("frames", "json")


@dataclass(slots=True)
class _Videos:
    """The videos that sinks ask for: each is the options of `video` or `publish`, and the stream that it shows."""

    wall: bool
    found: list[tuple[str, dict[str, Any], list[str]]] = field(default_factory=list)


def realtime_wanted(configuration: Configuration) -> bool:
    """Return whether a sink that is on plays at the speed of the timestamps."""
    for _, section in configuration.numbered("sink"):
        values = section.values()
        if values.get("enable", "1").strip() == "1" and values.get("sync", "0").strip() == "1":
            return True
    return False


def add_outputs(configuration: Configuration, imported: Import) -> None:
    """Add the steps of all sinks, with the wall of streams and the drawing before them."""
    tiles = next(
        (Settings(one, TILED_DISPLAY, imported.outcomes) for one in configuration.named("tiled-display")), None
    )
    wall = tiles is not None and tiles.is_enabled
    videos = _Videos(wall)
    converter = next(
        (Settings(one, MESSAGE_CONVERTER, imported.outcomes) for one in configuration.named("message-converter")), None
    )
    for _, section in configuration.numbered("sink"):
        settings = Settings(section, SINK, imported.outcomes)
        if not settings.is_enabled:
            settings.close(because="the sink is switched off")
            continue
        _add_sink(settings, imported, videos, converter)
        settings.close()
    if converter is not None:
        converter.close(because=None if converter.is_enabled else "the converter is switched off")
    for _, section in configuration.numbered("message-consumer"):
        Settings(section, MESSAGE_CONSUMER, imported.outcomes).close()
    _add_drawing(configuration, imported, has_video=bool(videos.found))
    _add_videos(videos, tiles, imported)


def _add_sink(settings: Settings, imported: Import, videos: _Videos, converter: Settings | None) -> None:
    kind = settings.whole("type", _SCREEN)
    streams = _streams(settings, imported) if settings.flag("link-to-demux") or not videos.wall else []
    if kind == _FAKE:
        settings.note("type", Outcome.NO_EFFECT, "a sink that drops all needs no step")
    elif kind in (_SCREEN, _OVERLAY):
        videos.found.append(("publish", {"web": True}, streams))
        settings.note(
            "type", Outcome.DIFFERENT, "`publish: {web: true}`: in a browser (`sightline run --listen`), not a window"
        )
    elif kind == _FILE:
        videos.found.append(("video", _video(settings, imported, shows_one=videos.wall or len(streams) == 1), streams))
    elif kind == _LIVE:
        port = settings.whole("rtsp-port", _RTSP_PORT)
        path = "ds-test" if videos.wall or len(imported.plan.streams) < 2 or streams else "{stream}"
        options: dict[str, Any] = {"rtsp": f"127.0.0.1:{port}/{path}"}
        if address := settings.text("rtsp-location"):
            options = {"url": imported.without_password(address, name="publish")}
        if (rate := settings.whole("bitrate", 0)) > 0:
            options["bitrate"] = _bitrate(rate)
        videos.found.append(("publish", options, streams))
    elif kind == _MESSAGES:
        _add_messages(settings, imported, converter)
    else:
        raise settings.error("type", "must be 1 (fake), 2 (window), 3 (file), 4 (RTSP), 5 (overlay) or 6 (messages)")


def _streams(settings: Settings, imported: Import) -> list[str]:
    """Return the streams of a sink that shows one source; none where it shows all."""
    if "source-id" not in settings or len(imported.plan.streams) < 2:
        settings.text("source-id")
        return []
    return imported.plan.streams_of.get(settings.whole("source-id", 0), [])


def _video(settings: Settings, imported: Import, *, shows_one: bool) -> dict[str, Any]:
    suffix = ".mkv" if settings.whole("container", 1) == _MKV else ".mp4"
    path = Path(settings.text("output-file", "out/video.mp4"))
    is_one = shows_one or len(imported.plan.streams) < 2
    template = path.stem if is_one else f"{path.stem}-{{stream}}"
    folder = output_folder(str(path.parent))
    options: dict[str, Any] = {"path": str(Path(folder, template + suffix))}
    if ".." in path.parts and not path.is_absolute():
        settings.note(
            "output-file", Outcome.DIFFERENT, f"`video: {{path: {options['path']}}}`: outputs stay in their folder"
        )
    codec = settings.whole("codec", 1)
    if codec == _H265:
        options["codec"] = "h265"
    elif codec == _MPEG4:
        settings.note("codec", Outcome.DIFFERENT, "H.264 instead of MPEG-4: smaller at the same quality")
    if settings.whole("enc-type", 0) == _SOFTWARE:
        options["encoder"] = "cpu"
    if (rate := settings.whole("bitrate", 0)) > 0:
        options["bitrate"] = _bitrate(rate)
    interval = next((key for key in ("iframeinterval", "iframe-interval") if settings.whole(key, 0) > 0), None)
    if interval is not None:
        options["gop"] = imported.frames_to_time(settings.whole(interval, 0))
    return options


def _bitrate(bits: int) -> str:
    """Return bits a second as `bitrate` takes them, to a thousand."""
    thousands = max(1, round(bits / 1000))
    return f"{thousands // 1000}M" if thousands % 1000 == 0 else f"{thousands}k"


def _add_drawing(configuration: Configuration, imported: Import, *, has_video: bool) -> None:
    for section in configuration.named("osd"):
        settings = Settings(section, OSD, imported.outcomes)
        if not settings.is_enabled or not has_video:
            settings.close(because="drawing is switched off" if not settings.is_enabled else "no sink shows images")
            continue
        options: dict[str, Any] = {}
        if (width := settings.whole("border-width", 0)) > 0:
            options["thickness"] = min(width, 64)
        if "border-width" in settings and width == 0:
            settings.note("border-width", Outcome.DIFFERENT, "0 draws no boxes: `boxes: false`")
            options["boxes"] = False
        if (size := settings.whole("text-size", 0)) > 0:
            options["text_size"] = max(6, size)
        if settings.flag("show-clock"):
            options["clock"] = True
        for key, option in (("display-bbox", "boxes"), ("display-text", "labels"), ("display-mask", "masks")):
            if key in settings and not settings.flag(key):
                options[option] = False
        if not _shows_ids(configuration):
            options["ids"] = False
        if not imported.draws_rules:
            options["rules"] = False
        imported.plan.add(Stage.DRAW, "draw", options, "")
        settings.close()


def _shows_ids(configuration: Configuration) -> bool:
    tracker = configuration.sections.get("tracker")
    return tracker is None or tracker.values().get("display-tracking-id", "1").strip() != "0"


def _add_videos(videos: _Videos, tiles: Settings | None, imported: Import) -> None:
    """Add the wall with the videos that show it, and the videos of single streams."""
    wall: dict[str, Any] = {}
    for element, options, streams in videos.found:
        if not videos.wall or streams:
            imported.plan.add(Stage.VIDEO, element, ({"streams": streams} if streams else {}) | options, "")
        elif element in wall and element == "publish":
            wall[element] = {**options, **wall[element]}
        elif element in wall:
            imported.plan.add(Stage.VIDEO, "tile", _grid(tiles, imported) | {element: options}, "")
        else:
            wall[element] = options
    if wall:
        imported.plan.add(Stage.VIDEO, "tile", _grid(tiles, imported) | wall, "All streams in one video.")
    if tiles is not None:
        reason = "all streams in one video are switched off" if not videos.wall else None
        tiles.close(because=reason if wall or reason else "no sink shows images")


def _grid(tiles: Settings | None, imported: Import) -> dict[str, Any]:
    """Return size and grid of the wall; a grid that has not room for all streams is left out."""
    if tiles is None:
        return {}
    width, height = (tiles.whole(side, default) // 2 * 2 for side, default in (("width", 1280), ("height", 720)))
    options: dict[str, Any] = {"size": [max(_MIN_SIDE, width), max(_MIN_SIDE, height)]}
    grid = {key: tiles.whole(key, 0) for key in ("rows", "columns") if tiles.whole(key, 0) > 0}
    if len(grid) == 2 and prod(grid.values()) < len(imported.plan.streams):
        for key in grid:
            text = f"{len(imported.plan.streams)} streams need more tiles: the grid is as square as fits"
            tiles.note(key, Outcome.DIFFERENT, text)
        return options
    return options | grid


def _add_messages(settings: Settings, imported: Import, converter: Settings | None) -> None:
    """Add the step that delivers messages to a broker."""
    library = Path(settings.text("msg-broker-proto-lib")).name.lower()
    broker = next((name for name in _BROKERS if name in library), None)
    if broker is None:
        text = "no broker here speaks it: `mqtt`, `kafka`, `amqp`, `redis`, `nats` and `webhook` deliver messages"
        settings.note("msg-broker-proto-lib", Outcome.IMPOSSIBLE, text)
        return
    account = _account(settings, imported)
    options = _BROKERS[broker](settings, account, imported)
    source = converter if converter is not None and converter.is_enabled else settings
    payload = source.whole("msg-conv-payload-type", 0)
    kind, form = _FORMATS.get(payload, _OTHER_FORMAT)
    if payload not in (0, 1) and "msg-conv-payload-type" in source:
        text = f"`format: {form}`: the schema is that of Sightline"
        source.note("msg-conv-payload-type", Outcome.DIFFERENT, text)
    options |= {"send": [kind], "format": form}
    interval = source.whole("msg-conv-frame-interval", _MESSAGE_INTERVAL)
    if interval > 1:
        options["max_rate"] = round(imported.fps / interval, 3)
    if not source.flag("msg-conv-dummy-payload") and kind == "frames":
        options["empty"] = False
    comment = f"One message in {interval} frames of {imported.fps:g} a second." if interval > 1 else ""
    if sensors := _sensors(source, form, imported):
        options["sensors"] = sensors
    imported.plan.add(Stage.RESULTS, broker, options, comment)


def _sensors(source: Settings, form: str, imported: Import) -> dict[str, Any]:
    """Return what the file of the message converter says of cameras and places."""
    named = source.text("msg-conv-config")
    path = source.section.place.file.parent / named
    if path.suffix.lower() == ".csv":
        text = "tables of sensors are not read: give them as [sensor0], [place0], [analytics0]"
        source.note("msg-conv-config", Outcome.IMPOSSIBLE, text)
        return {}
    found = imported.read(path, named_by="msg-conv-config") if named else None
    if found is None:
        return {}
    because = None if form.startswith("deepstream") else f"the format {form} says nothing of cameras and places"
    return sensors_of(found, imported, because=because)


@dataclass(slots=True)
class _Account:
    """What the file of a broker says; `settings` is None where there is none."""

    settings: Settings | None

    def text(self, key: str, default: str = "") -> str:
        return default if self.settings is None else self.settings.text(key, default)


def _account(settings: Settings, imported: Import) -> _Account:
    named = settings.text("msg-broker-config")
    if not named:
        return _Account(None)
    found = imported.read(settings.section.place.file.parent / named, named_by=f"[{settings.name}] msg-broker-config")
    if found is None:
        return _Account(None)
    for name, section in found.sections.items():
        if name != "message-broker":
            report_unknown_section(section, ["message-broker"], imported.outcomes)
    if "message-broker" not in found.sections:
        return _Account(None)
    account = Settings(found.sections["message-broker"], BROKER, imported.outcomes)
    account.close()
    return _Account(account)


def _parts(settings: Settings, account: _Account, port: int) -> tuple[str, list[str]]:
    """Return `HOST:PORT` of the connection string `host;port;...`, and the parts behind it."""
    parts = [part.strip() for part in settings.text("msg-broker-conn-str").split(";")]
    host = parts[0] or account.text("hostname", "localhost")
    number = (parts[1] if len(parts) > 1 else "") or account.text("port", str(port))
    if not number.isdigit():
        raise settings.error("msg-broker-conn-str", "host;port is expected, with a number as port")
    return f"{host}:{number}", parts[2:]


def _login(broker: str, account: _Account, imported: Import, *, given: bool = False) -> str:
    """Return user and password as environment variables, where there are any; secrets are not written."""
    if not given and not account.text("username") and not account.text("password"):
        return ""
    user, password = imported.variable(f"{broker}_USER"), imported.variable(f"{broker}_PASSWORD")
    return f"${{{user}}}:${{{password}}}@"


def _kafka(settings: Settings, account: _Account, _: Import) -> dict[str, Any]:
    server, rest = _parts(settings, account, 9092)
    options: dict[str, Any] = {"url": f"kafka://{server}"}
    topic = settings.text("topic") or (rest[0] if rest else "")
    return options | ({"topic": topic} if topic else {}) | _librdkafka(account)


def _librdkafka(account: _Account) -> dict[str, Any]:
    """Return the settings of the client, `name=value;...`, without those that hold secrets."""
    found = {}
    for part in (account.text("proto-cfg") + ";" + account.text("producer-proto-cfg")).split(";"):
        key, equals, value = part.strip().strip("\"'").partition("=")
        if equals and not any(word in key for word in ("password", "secret", "username", "sasl", "bootstrap")):
            found[key.strip()] = value.strip()
    return {"options": found} if found else {}


def _mqtt(settings: Settings, account: _Account, imported: Import) -> dict[str, Any]:
    server, _ = _parts(settings, account, 1883)
    scheme = "mqtts" if account.text("enable-tls") == "1" else "mqtt"
    options: dict[str, Any] = {"url": Template(f"{scheme}://{_login('mqtt', account, imported)}{server}")}
    for key, option in (("tls-cafile", "ca_file"), ("tls-certfile", "cert_file"), ("tls-keyfile", "key_file")):
        if named := account.text(key):
            options[option] = imported.input_path(settings.section.place.file.parent / named)
    topic, client = settings.text("topic"), account.text("client-id")
    return options | ({"topic": topic} if topic else {}) | ({"client_id": client} if client else {})


def _amqp(settings: Settings, account: _Account, imported: Import) -> dict[str, Any]:
    server, rest = _parts(settings, account, 5672)
    login = _login("amqp", account, imported, given=bool(rest and rest[0]))
    exchange = account.text("exchange", "amq.topic")
    topic = settings.text("topic") or account.text("topic")
    options: dict[str, Any] = {"url": Template(f"amqp://{login}{server}"), "exchange": exchange}
    if exchange.startswith("amq."):
        options["declare"] = False
    return options | ({"routing_key": topic} if topic else {})


def _redis(settings: Settings, account: _Account, imported: Import) -> dict[str, Any]:
    server, _ = _parts(settings, account, 6379)
    options: dict[str, Any] = {"url": Template(f"redis://{_login('redis', account, imported)}{server}")}
    topic, most = settings.text("topic"), account.text("streamsize")
    return (
        options
        | ({"key": topic} if topic else {})
        | ({"max_length": int(most)} if most.isdigit() and int(most) else {})
    )


_BROKERS: Mapping[str, Callable[[Settings, _Account, Import], dict[str, Any]]] = {
    "kafka": _kafka,
    "mqtt": _mqtt,
    "amqp": _amqp,
    "redis": _redis,
}
