"""What a recording says of its run: the pipeline without secrets, versions of what computes, and files by digest."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from sightline.devices.processor import processor_name
from sightline.graph.fields import PathRole, is_url, paths_of
from sightline.graph.masked import masked_pipeline
from sightline.graph.tree import PipelineDescription
from sightline.redaction import redact
from sightline.runtime.recording.file import Head

_COMPUTING = ("sightline", "numpy", "av", "opencv-python-headless", "opencv-python", "openvino", "onnxruntime")
_PARTS = ("tensorrt", "pycuda", "PyNvVideoCodec")


def head_of_run(description: PipelineDescription, *, began_ns: int, engines: Mapping[str, Mapping[str, Any]]) -> Head:
    """Return the head of a recording of a run that begins now. Raises OSError for a file that cannot be read."""
    return Head(
        masked_pipeline(description),
        began_ns,
        versions(),
        files={str(path): _digest(path) for path in files_of(description)},
        engines={name: {key: redact(str(value)) for key, value in engine.items()} for name, engine in engines.items()},
    )


def versions() -> dict[str, str]:
    """Return the versions of this installation that results may depend on, by name, and its processor."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "processor": processor_name()}
    for name in (*_COMPUTING, *_PARTS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def differences(recorded: Head, present: Mapping[str, str]) -> list[str]:
    """Return a line for each version, and each file, that is another one than when a run was recorded."""
    names = dict.fromkeys((*recorded.versions, *present))
    changed = [
        f"{name}: {recorded.versions.get(name, 'none')} when it was recorded, {present.get(name, 'none')} now"
        for name in names
        if recorded.versions.get(name) != present.get(name)
    ]
    for name, digest in recorded.files.items():
        path = Path(name)
        if not path.is_file():
            changed.append(f"{name} is not there")
        elif _digest(path) != digest:
            changed.append(f"{name} has other contents (SHA-256) than when it was recorded")
    return changed


def files_of(description: PipelineDescription) -> Iterator[Path]:
    """Yield the files that the steps of a pipeline read and that are there, each once."""
    seen: set[Path] = set()
    for _, element in description.elements():
        for _, role, name in paths_of(element):
            path = Path(name)
            if role is not PathRole.OUTPUT and not is_url(name) and path.is_file() and path not in seen:
                seen.add(path)
                yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
