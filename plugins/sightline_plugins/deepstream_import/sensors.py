"""nvmsgconv's file: sensors, places and modules of analysis, which messages name, by stream."""

from __future__ import annotations

from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import
from sightline_plugins.deepstream_import.sections import Configuration
from sightline_plugins.deepstream_import.settings import Settings, report_unknown_section
from sightline_plugins.deepstream_import.tables.outputs import MODULE_DATA, PLACE_DATA, SENSOR_DATA

_KINDS = {"sensor": SENSOR_DATA, "place": PLACE_DATA, "analytics": MODULE_DATA}
_TEXTS = ("id", "name", "type", "description", "source", "version")
_POINTS = ("location", "coordinate")
_NUMBERS = 3


def sensors_of(found: Configuration, imported: Import, *, because: str | None = None) -> dict[str, Any]:
    """Return `sensors` of a step that delivers, by stream: section N is about the N-th stream, as in deepstream-app.

    With `because` the file has no effect, for that reason.
    """
    streams = imported.plan.streams
    sensors: dict[str, dict[str, Any]] = {}
    for name, section in found.sections.items():
        kind = name.rstrip("0123456789")
        number = name.removeprefix(kind)
        if kind not in _KINDS or not number:
            report_unknown_section(section, [f"{one}0" for one in _KINDS], imported.outcomes)
            continue
        settings = Settings(section, _KINDS[kind], imported.outcomes)
        if because is not None or not settings.is_enabled:
            settings.close(because=because or "the section is switched off")
        elif int(number) >= len(streams):
            settings.close(because=f"there is no stream {number}: the configuration has {len(streams)}")
        else:
            own = sensors.setdefault(streams[int(number)], {})
            own |= _data(settings) if kind == "sensor" else {kind: _data(settings)}
            settings.close()
    return {name: own for name, own in sensors.items() if own}


def _data(settings: Settings) -> dict[str, Any]:
    data: dict[str, Any] = {key: settings.text(key) for key in _TEXTS if key in settings}
    for key in _POINTS:
        numbers = settings.numbers(key)
        if len(numbers) == _NUMBERS:
            data[key] = list(numbers)
        elif numbers:
            settings.note(key, Outcome.IMPOSSIBLE, "three numbers are expected: it is left out")
    return data
