"""Baselines as files: JSON, one baseline a file, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from sightline.errors import ConfigurationError
from sightline.graph.outputs import Outputs
from sightline_plugins.drift.baseline import Baseline

_FORMAT = "sightline drift baseline 1"
_MOST_BYTES = 64 * 2**20


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises ConfigurationError, which names the file."""
    advice = "give a file that `drift` has written (option `write`)"
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"the baseline {path} cannot be read: {error.strerror or error}") from error
    if len(text) > _MOST_BYTES:
        raise ConfigurationError(f"{path} is too large for a baseline: {advice}")
    try:
        found = json.loads(text)
        if found["format"] != _FORMAT:
            raise ValueError("another format")
        return Baseline.restored(found["baseline"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no baseline, or is damaged: {advice}") from error


def baseline_problem(path: Path) -> str | None:
    """Return why a baseline cannot be read, or None."""
    try:
        read_baseline(path)
    except ConfigurationError as error:
        return str(error)
    return None


def write_baseline(baseline: Baseline, path: Path, *, stream: str, outputs: Outputs) -> None:
    """Write a baseline aside, and give it its name. Raises OutputError."""
    outputs.check_replaceable(path)
    part = path.with_name(f".{path.name}.part")
    body = json.dumps({"format": _FORMAT, "stream": stream, "baseline": baseline.save()})
    file = outputs.open_lines(part)
    file.write(body.encode() + b"\n")
    file.close()
    outputs.rename(part, to=path)
