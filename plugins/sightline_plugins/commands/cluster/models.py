"""The models of a cluster: the head lists their files by content, and each worker runs them from where it has them.

A worker takes those that lie at the head's paths with the right content. Others come from the head, once for all
workers of a machine, into `cluster/` of the cache folder, and the pipeline reads them there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from sightline.cache import cache_folder
from sightline.cluster.model import ClusterConfiguration, Json
from sightline.cluster.transfer import HeadFiles, digest_of
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline.graph.fields import models_of
from sightline_plugins.infer.card import read_card
from sightline_plugins.infer.facts import read_facts

_LIMIT_BYTES = 20_000_000_000
"""When more has come from heads, what was not used for longest goes."""
_KEPT_SECONDS = 86_400.0
"""What was used since stays."""


def model_files(description: PipelineDescription) -> dict[str, dict[str, str]]:
    """The content (SHA-256) of the files of each model, by the model's path and the names in its folder: the model,
    its card with the labels, and its weights. Raises ConfigurationError when one cannot be read.
    """
    found: dict[str, dict[str, str]] = {}
    for _, element in description.elements():
        beside = [path for path in element.files_beside().values() if path.is_file()]
        for model in models_of(element):
            if model.is_file():
                own = [model, *_labels(model), *(model.parent / name for name in read_facts(model).weights)]
                own += [path for path in beside if path.parent == model.parent]
                found[str(model)] = {path.name: content_of(path) for path in own if path.parent == model.parent}
    return found


def _labels(model: Path) -> Iterator[Path]:
    labels = read_card(model).labels
    if isinstance(labels, Path):
        yield labels


def content_of(path: Path) -> str:
    """The SHA-256 of a file. Raises ConfigurationError."""
    try:
        return digest_of(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def models_folder(outputs: Path) -> Path:
    """Where models that come from a head are kept, for all workers of this user; without a cache folder, in that of
    the worker's outputs.
    """
    cache = cache_folder()
    return (outputs / "models" if cache is None else cache) / "cluster"


def with_local_models(configuration: ClusterConfiguration, *, folder: Path, head: HeadFiles) -> Mapping[str, Json]:
    """The pipeline of a configuration with the paths of models as they are on this machine; what is missing comes from
    the head. Raises SightlineError.
    """
    moved = {}
    for path, files in configuration.models.items():
        if all(_has(Path(path).parent / name, sha256) for name, sha256 in files.items()):
            continue
        own = folder / blake2b(msgspec.json.encode(files, order="sorted"), digest_size=16).hexdigest()
        for name, sha256 in files.items():
            if Path(name).name != name:
                raise ConfigurationError(f"{name!r} is no name of a file")
            if not _has(own / name, sha256):
                head.bring(sha256, own / name)
        os.utime(own)
        moved[path] = str(own / Path(path).name)
    if moved:
        _make_room(folder)
    return {key: _replaced(value, moved) for key, value in configuration.pipeline.items()}


def _has(path: Path, sha256: str) -> bool:
    with suppress(OSError):
        return digest_of(path) == sha256
    return False


def _replaced(value: Json, moved: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return moved.get(value, value)
    if isinstance(value, Mapping):
        return {key: _replaced(one, moved) for key, one in value.items()}
    return [_replaced(one, moved) for one in value] if isinstance(value, list | tuple) else value


def _make_room(folder: Path) -> None:
    """Remove models that were not used for long until the rest fits."""
    found = []
    for own in folder.iterdir():
        with suppress(OSError):  # another process has removed it
            found.append((own.stat().st_mtime, sum(one.stat().st_size for one in own.iterdir()), own))
    total = sum(size for _, size, _ in found)
    for used, size, own in sorted(found):
        if total <= _LIMIT_BYTES or time.time() - used < _KEPT_SECONDS:
            return
        shutil.rmtree(own, ignore_errors=True)
        total -= size
