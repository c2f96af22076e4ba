"""nvdsanalytics: regions, crowds, lines and directions as rules, in fractions of the frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage, duration, safe_name
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.settings import Settings, Table, report_unknown_section
from sightline_plugins.deepstream_import.source_text import Place
from sightline_plugins.deepstream_import.tables.outputs import (
    ANALYTICS_PROPERTY,
    ANALYTICS_SECTION,
    DIRECTION,
    LINE_CROSSING,
    OVERCROWDING,
    ROI,
)

_PROPERTY = "property"
_SHARES = 5
_MIN_WINDOW, _MAX_WINDOW = 4, 1000
_MAX_STREAMS = 1000
_RESERVED = ("id", "streams", "on_error", "pixels", "compat", "window", "gone")
Points = list[list[float]]


def add_analytics(section: Section, imported: Import) -> None:
    """Add the rules of the file that a section names."""
    found = imported.read_named(section, ANALYTICS_SECTION, plugin="nvdsanalytics")
    if found is not None:
        add_rules(found, imported)


def add_rules(found: Configuration, imported: Import) -> None:
    """Add the rules of a file of nvdsanalytics. Raises ConfigurationError for wrong coordinates."""
    section = found.sections.get(_PROPERTY)
    if section is None:
        raise Place(found.path).error("has no section [property] with config-width and config-height")
    settings = Settings(section, ANALYTICS_PROPERTY, imported.outcomes)
    width, height = settings.number("config-width", 0), settings.number("config-height", 0)
    if width <= 0 or height <= 0:
        raise section.place.error("[property] needs config-width and config-height: coordinates are in pixels of these")
    is_on, window = settings.is_enabled, settings.whole("obj-cnt-win-in-ms", 0)
    if is_on and settings.whole("osd-mode", 2) == 0:
        imported.draws_rules = False
    if imported.compat and window:
        settings.note("obj-cnt-win-in-ms", Outcome.TAKEN, "`window`, which is a number of frames there as well")
    settings.close()
    if not imported.plan.streams:
        _add_streams(found, imported)
    reader = _Reader(imported, (width, height), window if _MIN_WINDOW <= window <= _MAX_WINDOW else None)
    for name, inner in found.sections.items():
        kind = next((prefix for prefix in _GROUPS if name.startswith(prefix)), None)
        number = name.removeprefix(kind or "")
        if kind is None or not number.isdigit():
            if name != _PROPERTY:
                known = [_PROPERTY, *(f"{prefix}0" for prefix in _GROUPS)]
                report_unknown_section(inner, known, imported.outcomes)
            continue
        table, add = _GROUPS[kind]
        group = Settings(inner, table, imported.outcomes)
        if not is_on or not group.is_enabled:
            group.close(because="the group is switched off")
            continue
        streams = imported.plan.streams
        if streams and int(number) >= len(streams):
            group.close(because=f"there is no stream {number}: the configuration has {len(streams)}")
            continue
        add(reader, group, [streams[int(number)]] if len(streams) > 1 else [])
        group.close()


def _add_streams(found: Configuration, imported: Import) -> None:
    """Add the streams that the groups of a file alone are about, where there are several."""
    numbers = [name.rpartition("-")[2] for name in found.sections if name.startswith(tuple(_GROUPS))]
    count = 1 + max((int(number) for number in numbers if number.isdigit()), default=0)
    if 1 < count <= _MAX_STREAMS:
        for number in range(count):
            imported.plan.sources[f"source{number}"] = {"uri": f"video{number}.mp4"}
        imported.outcomes.missing.append(
            f"no source was found: put yours instead of `video0.mp4` to `video{count - 1}.mp4`"
        )


class _Reader:
    """Turns the groups of one file into steps."""

    def __init__(self, imported: Import, size_wh: tuple[float, float], window: int | None) -> None:
        self.imported, self._size, self._window = imported, size_wh, window

    def zones(self, group: Settings, streams: Sequence[str]) -> None:
        """Regions of interest: who is inside."""
        inverse = group.flag("inverse-roi")
        found = {}
        for key, name in _labelled(group, "roi-"):
            zone: dict[str, Any] = {"polygon": self._polygon(group, key)} | self._classes(group)
            found[name] = zone
        if inverse:
            group.note("inverse-roi", Outcome.IMPOSSIBLE, "the zone counts what is inside: draw the rest as a zone")
        self._add("zones", found, streams, "Regions of interest of nvdsanalytics.")

    def crowds(self, group: Settings, streams: Sequence[str]) -> None:
        """Overcrowding."""
        most, after = group.whole("object-threshold", 1), group.number("time-threshold", 2000)
        compat = self.imported.compat
        found = {}
        for key, name in _labelled(group, "roi-"):
            shape: dict[str, Any] = {"polygon": self._polygon(group, key)}
            shape |= {"limit": most} if compat else {"at_least": max(1, most), "after": duration(after / 1000)}
            found[name] = shape | self._classes(group)
            if compat:
                group.note(key, Outcome.TAKEN, "`zones` with `limit`, in fractions of the frame")
        if compat:
            group.note("object-threshold", Outcome.TAKEN, "`limit`: at least so many, as DeepStream counts")
            group.note("time-threshold", Outcome.NO_EFFECT, "DeepStream reads it and never uses it")
        self._add("zones" if compat else "crowd", found, streams, "Overcrowding of nvdsanalytics.")

    def lines(self, group: Settings, streams: Sequence[str]) -> None:
        """Line crossing."""
        mode = group.text("mode", "loose").lower()
        extended = group.flag("extended", default=True)
        compat = self.imported.compat
        if compat and mode not in ("loose", "balanced", "strict"):
            raise group.error("mode", "must be loose, balanced or strict")
        found = {}
        for key, name in _labelled(group, "line-crossing-"):
            points = self._points(group, key, count=4)
            arrow, (start, end) = points[:2], points[2:]
            way = [arrow[1][axis] - arrow[0][axis] for axis in (0, 1)]
            line = [end[axis] - start[axis] for axis in (0, 1)]
            side = line[0] * way[1] - line[1] * way[0]
            if side == 0:
                raise group.error(key, "the direction has to lead from one side of the line to the other")
            if side < 0:  # `in` is from the left-hand to the right-hand side of a walk from `from` to `to`
                start, end = end, start
            shape: dict[str, Any] = {"from": start, "to": end}
            if compat:
                shape |= {"arrow": arrow, "mode": mode, "extended": extended}
                group.note(key, Outcome.TAKEN, "`lines`, in fractions of the frame")
            found[name] = shape | self._classes(group)
        if compat:
            group.note("mode", Outcome.TAKEN, "`mode`")
            group.note("extended", Outcome.TAKEN, "`extended`")
        elif not extended:
            group.note("extended", Outcome.TAKEN, "a line ends at its ends")
        self._add("lines", found, streams, "Line crossing of nvdsanalytics: `in` is along its arrow.")

    def directions(self, group: Settings, streams: Sequence[str]) -> None:
        """Direction detection, with objects that stand under `compat`."""
        compat = self.imported.compat
        found = {}
        for key, name in _labelled(group, "direction-"):
            start, end = self._points(group, key, count=2)
            if start == end:
                raise group.error(key, "the direction has no length")
            shape: dict[str, Any] = {"allowed": {"from": start, "to": end}}
            shape |= {} if compat else {"tolerance": 60}
            found[name] = shape | self._classes(group)
            if compat:
                group.note(key, Outcome.TAKEN, "`direction`: the attribute `direction` of each object")
        self._add("direction", found, streams, "Direction detection of nvdsanalytics.")
        if compat and found:
            standing = {"standing": self._classes(group)}
            self._add("stopped", standing, streams, "Objects that stand: nvdsanalytics finds them with directions.")

    def _add(self, element: str, shapes: Mapping[str, Any], streams: Sequence[str], comment: str) -> None:
        if not shapes:
            return
        options: dict[str, Any] = {"streams": list(streams)} if streams else {}
        if self.imported.compat:
            options["compat"] = "deepstream"
            if self._window is not None:
                options["window"] = self._window
        self.imported.plan.add(Stage.RULES, element, {**options, **shapes}, comment)

    def _classes(self, group: Settings) -> dict[str, Any]:
        ids = group.ids("class-id")
        if not ids:
            return {}
        labels = next((model.labels for model in self.imported.plan.models.values() if model.labels), ())
        names = [labels[one] for one in ids if 0 <= one < len(labels)]
        if len(names) < len(ids):
            text = "the labels of the detector do not name these classes: give `classes` yourself"
            group.note("class-id", Outcome.IMPOSSIBLE, text)
        return {"classes": names} if names else {}

    def _polygon(self, group: Settings, key: str) -> Points:
        return self._points(group, key)

    def _points(self, group: Settings, key: str, *, count: int | None = None) -> Points:
        """Return points as fractions of the frame. Raises ConfigurationError for a wrong number of coordinates."""
        numbers = group.numbers(key)
        if (
            len(numbers) % 2
            or (count is not None and len(numbers) != 2 * count)
            or (count is None and len(numbers) < 6)
        ):
            expected = f"{2 * count} coordinates" if count else "x;y of three corners or more"
            raise group.error(key, f"{expected} are expected, with ; between them")
        width, height = self._size
        points = [[x / width, y / height] for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
        inside = [[round(min(1.0, max(0.0, one)), _SHARES) for one in point] for point in points]
        if any(
            abs(a - b) > 0.5 * 10**-_SHARES + 1e-9
            for p, q in zip(points, inside, strict=True)
            for a, b in zip(p, q, strict=True)
        ):
            group.note(key, Outcome.DIFFERENT, "a point outside of the frame was moved to its edge")
        return inside


def _labelled(group: Settings, prefix: str) -> list[tuple[str, str]]:
    """Return the keys with a prefix, and the names of the rules that they describe."""
    found = []
    for key in list(group.section.entries):
        if key.startswith(prefix):
            group.used.add(key)
            name = safe_name(key.removeprefix(prefix), default="rule")
            found.append((key, f"{name}-rule" if name in _RESERVED else name))
    return found


_GROUPS: Mapping[str, tuple[Table, Callable[[_Reader, Settings, Sequence[str]], None]]] = {
    "roi-filtering-stream-": (ROI, _Reader.zones),
    "overcrowding-stream-": (OVERCROWDING, _Reader.crowds),
    "line-crossing-stream-": (LINE_CROSSING, _Reader.lines),
    "direction-detection-stream-": (DIRECTION, _Reader.directions),
}
