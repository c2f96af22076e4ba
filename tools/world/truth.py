"""The truth of a clip: tracks in MOT form, line crossings, zone stays and totals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tools.world.arrays import Floats
from tools.world.plates import LEAST_HEIGHT_PX, LEAST_VISIBLE, LEAST_WIDTH_PX
from tools.world.render import Truth
from tools.world.rules import anchors, crossings, stays
from tools.world.scene import LABELS, Scene
from tools.world.vehicles import Vehicle

TRACK, LABEL, VISIBILITY = 1, 2, 7
BOX = slice(3, 7)


def table(truths: Sequence[Truth]) -> Floats:
    """All rows of a clip: frame (from 0), track id, class id, x0, y0, x1, y1, visibility; by frame, then track.

    Boxes are rounded to a hundredth of a pixel, as they are written, so that the rules see what readers see.
    """
    parts = [
        np.column_stack(
            [np.full(len(t.track_id), frame), t.track_id, t.class_id, t.xyxy.round(2), t.visibility.round(3)]
        )
        for frame, t in enumerate(truths)
    ]
    return np.concatenate(parts)


def mot_lines(rows: Floats) -> str:
    """Rows as MOT ground truth: frame (from 1), id, left, top, width, height, 1, class id (from 0), visibility."""
    lines = []
    for frame, track, label, x0, y0, x1, y1, visibility in rows:
        box = f"{x0:.2f},{y0:.2f},{x1 - x0:.2f},{y1 - y0:.2f}"
        lines.append(f"{int(frame) + 1},{int(track)},{box},1,{int(label)},{visibility:.3f}")
    return "\n".join(lines) + "\n"


def read_mot(path: Path) -> Floats:
    """The rows that `mot_lines` wrote, as `table` gives them."""
    stored = np.loadtxt(path, delimiter=",", ndmin=2)
    frame, track, left, top, width, height, _, label, visibility = stored.T
    rows: Floats = np.column_stack([frame - 1, track, label, left, top, left + width, top + height, visibility])
    return rows


def happenings(rows: Floats, *, scene: Scene) -> dict[str, object]:
    """What the rules of the scene say about its tracks, ready for JSON."""
    crossed: list[dict[str, object]] = []
    stayed: list[dict[str, object]] = []
    for track in np.unique(rows[:, TRACK]):
        own = rows[rows[:, TRACK] == track]
        points, frames = anchors(own[:, BOX]), own[:, 0].astype(int)
        who: dict[str, object] = {"id": int(track), "class": LABELS[int(own[0, LABEL])]}
        for line in scene.lines:
            for crossing in crossings(points, line=line, size_wh=scene.size_wh):
                at = int(frames[crossing.step])
                crossed.append({"line": line.name, "frame": at, **who, "direction": crossing.direction})
        for zone in scene.zones:
            for stay in stays(points, zone=zone, size_wh=scene.size_wh):
                enter = int(frames[stay.enter])
                leave = None if stay.leave is None else int(frames[stay.leave])
                last = int(frames[-1]) + 1 if leave is None else leave
                dwell = round((last - enter) / scene.fps, 3)
                stayed.append({"zone": zone.name, **who, "enter": enter, "leave": leave, "dwell_seconds": dwell})
    crossed.sort(key=lambda entry: (entry["frame"], entry["id"], entry["line"]))
    stayed.sort(key=lambda entry: (entry["enter"], entry["id"], entry["zone"]))
    return {"crossings": crossed, "stays": stayed, "totals": _totals(crossed, stayed, rows=rows, scene=scene)}


def _totals(
    crossed: list[dict[str, object]], stayed: list[dict[str, object]], *, rows: Floats, scene: Scene
) -> dict[str, object]:
    tracks = {track: LABELS[int(label)] for track, label in rows[:, TRACK : LABEL + 1]}
    lines = {
        line.name: {
            direction: sum(1 for entry in crossed if (entry["line"], entry["direction"]) == (line.name, direction))
            for direction in ("in", "out")
        }
        for line in scene.lines
    }
    zones = {zone.name: sum(1 for entry in stayed if entry["zone"] == zone.name) for zone in scene.zones}
    labels = {label: sum(1 for found in tracks.values() if found == label) for label in LABELS}
    return {"tracks": labels, "lines": lines, "zones": zones}


def document(rows: Floats, *, scene: Scene, clip: str) -> str:
    """The JSON document that stands beside a clip."""
    content: dict[str, object] = {
        "clip": clip,
        "size": list(scene.size_wh),
        "fps": scene.fps,
        "frames": scene.frames,
        "seed": scene.seed,
        "classes": list(LABELS),
        "anchor": "middle of the bottom edge of the box",
        "lines": [{"name": line.name, "from": list(line.start), "to": list(line.stop)} for line in scene.lines],
        "zones": [{"name": zone.name, "polygon": [list(corner) for corner in zone.corners]} for zone in scene.zones],
        **happenings(rows, scene=scene),
    }
    return _written(content)


def plates_document(truths: Sequence[Truth], *, scene: Scene, clip: str) -> str:
    """The JSON document of a clip's number plates: for each track its text and where its plate is seen."""
    rows: dict[int, list[list[float]]] = {}
    readable: dict[int, int] = {}
    for frame, truth in enumerate(truths):
        for plate in truth.plates:
            row = [frame, *plate.xyxy.round(2).tolist(), round(plate.visibility, 3)]
            rows.setdefault(plate.track_id, []).append(row)
            readable[plate.track_id] = readable.get(plate.track_id, 0) + plate.is_readable
    text = {actor.track_id: actor.look.plate for actor in scene.actors if isinstance(actor.look, Vehicle)}
    label = {actor.track_id: actor.label for actor in scene.actors}
    content: dict[str, object] = {
        "clip": clip,
        "columns": ["frame", "left", "top", "right", "bottom", "visibility"],
        "readable": {"width": LEAST_WIDTH_PX, "height": LEAST_HEIGHT_PX, "visibility": LEAST_VISIBLE},
        "plates": [
            {
                "id": track,
                "class": label[track],
                "text": text[track],
                "readable_frames": readable[track],
                "boxes": rows[track],
            }
            for track in sorted(rows)
        ],
    }
    return _written(content)


def _written(content: dict[str, object]) -> str:
    fields = [f" {json.dumps(key)}: {_value(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _value(value: object) -> str:
    """Lists of objects one entry a line, everything else on one line."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join("  " + json.dumps(entry) for entry in value) + "\n ]"
    return json.dumps(value)
