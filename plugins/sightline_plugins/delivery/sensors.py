"""Where cameras stand and what watches them, for the message schemas of DeepStream: its sensors, places and modules."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field

from sightline.graph.described import Described

_Number = Annotated[float, Field(allow_inf_nan=False)]
Location = tuple[_Number, _Number, _Number]
"""Latitude and longitude in degrees, altitude in metres."""
Coordinate = tuple[_Number, _Number, _Number]
"""x, y, z in the coordinates of the place."""


class PlaceData(Described):
    """The place that a camera looks at."""

    id: str = ""
    """Its id."""
    name: str = ""
    """Its name."""
    type: str = ""
    """What it is, such as garage."""
    location: Location | None = None
    """Latitude, longitude, altitude."""
    coordinate: Coordinate | None = None
    """x, y, z."""


class ModuleData(Described):
    """The analysis that messages name as their origin. Default: the pipeline, and for events the rule."""

    id: str = ""
    """Its id."""
    description: str = ""
    """What it does."""
    source: str = ""
    """Who made it."""
    version: str = ""
    """Its version."""


class SensorData(Described):
    """A camera, as messages name it."""

    id: str = ""
    """Its id. Default: the name of the stream."""
    type: str = "Camera"
    """What it is."""
    description: str = ""
    """Where it hangs, in words."""
    location: Location | None = None
    """Latitude, longitude, altitude."""
    coordinate: Coordinate | None = None
    """x, y, z."""
    place: PlaceData | None = None
    """The place that it looks at. Default: the pipeline."""
    analytics: ModuleData | None = None
    """The analysis that messages name."""

    def as_sensor(self, stream: str) -> dict[str, Any]:
        """Return `sensor` of a message about a stream."""
        return {
            "id": self.id or stream,
            "type": self.type,
            "description": self.description,
            "location": location_of(self.location),
            "coordinate": coordinate_of(self.coordinate),
        }

    def as_place(self, pipeline: str) -> dict[str, Any]:
        """Return `place` of a message of a pipeline."""
        place = self.place or PlaceData(id=pipeline, name=pipeline)
        return {
            "id": place.id,
            "name": place.name,
            "type": place.type,
            "location": location_of(place.location),
            "coordinate": coordinate_of(place.coordinate),
        }

    def as_module(self, usual: Mapping[str, str]) -> dict[str, str]:
        """Return `analyticsModule` of a message; what is not set is as in `usual`."""
        given = {} if self.analytics is None else self.analytics.model_dump()
        return {**usual, **{key: value for key, value in given.items() if value}}


UNKNOWN = SensorData()
"""A camera of which nothing but its stream is known."""


def sensor_of(stream: str, sensors: Mapping[str, SensorData]) -> SensorData:
    """Return the sensor of a stream: that of the first name or glob that fits."""
    return next((sensor for glob, sensor in sensors.items() if fnmatchcase(stream, glob)), UNKNOWN)


def location_of(location: Location | None) -> dict[str, float]:
    """Return a location as messages have it; empty where it is not known."""
    return {} if location is None else dict(zip(("lat", "lon", "alt"), location, strict=True))


def coordinate_of(coordinate: Coordinate | None) -> dict[str, float]:
    """Return a coordinate as messages have it; empty where it is not known."""
    return {} if coordinate is None else dict(zip(("x", "y", "z"), coordinate, strict=True))
