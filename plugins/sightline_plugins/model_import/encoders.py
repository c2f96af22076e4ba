"""Put a pair of encoders for search in words into the store: its files as they are, tried on an image and a text."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sightline.devices.processor import processor_name
from sightline.errors import ModelError
from sightline.graph.outputs import output_error
from sightline_plugins.model_import.adding import Added, copy_model
from sightline_plugins.model_import.judging import Judged
from sightline_plugins.model_import.package import name_of
from sightline_plugins.search.encoders import (
    IMAGE_MODEL,
    MODEL_PLACES,
    PREPROCESSING,
    TEXT_MODEL,
    TOKENIZER,
    TOKENIZER_CONFIG,
    EncoderFolder,
    ImageEncoder,
    TextEncoder,
)
from sightline_plugins.store import Origin, Speed, Store
from sightline_plugins.store.record import ENCODER_TASK, checked_name, checked_version, new_record

_NOISE_SIDE = 256
_RUNS = 5
_TEXT = "a red car"


def is_encoder(path: Path) -> bool:
    """Whether a path is a folder with the two models of a pair."""
    return all(any((path / place / name).is_file() for place in MODEL_PLACES) for name in (IMAGE_MODEL, TEXT_MODEL))


def add_encoder(
    folder: Path,
    store: Store,
    *,
    name: str | None = None,
    version: str | None = None,
    licence: str | None = None,
    sha256: str | None = None,
) -> Added:
    """Add the pair in a folder to the store; `sha256` is that of the image encoder.

    Nothing is in the store unless the pair is: both networks have to run, and give vectors of the same length. Raises
    as `add_package` does, and MissingExtra without the package that reads tokenizers.
    """
    files = EncoderFolder.at(folder)
    chosen = name_of(folder.resolve().name) if name is None else name
    checked_name(chosen)
    if version is not None:
        checked_version(version)
    with store.adding() as place:
        try:
            copy_model(files.image_model, place / files.image_model.name, sha256=sha256)
            copy_model(files.text_model, place / files.text_model.name, sha256=None)
            for one in (PREPROCESSING, TOKENIZER, TOKENIZER_CONFIG):
                if (folder / one).is_file():
                    shutil.copyfile(folder / one, place / one)
        except OSError as error:
            raise output_error(store.folder / chosen, error, doing="write") from error
        try:
            judged = _judge(EncoderFolder.at(place))
        except ModelError as error:
            raise ModelError(str(error).replace(str(place), str(folder))) from error
        record = new_record(
            name=chosen,
            task=ENCODER_TASK,
            model=files.image_model.name,
            origin=Origin("encoders", str(folder.resolve())),
            added=datetime.now(UTC).isoformat(timespec="seconds"),
            licence=licence,
            speed=(judged.speed,),
        )
        stored, is_new = store.publish(place, record, version=version)
    return Added(stored, judged, is_new)


def _judge(files: EncoderFolder) -> Judged:
    """Encode an image of noise and a text. Raises ModelError."""
    noise = np.random.default_rng(0).integers(0, 256, (_NOISE_SIDE, _NOISE_SIDE, 3)).astype(np.uint8)
    with closing(ImageEncoder(files)) as images, closing(TextEncoder(files)) as texts:
        seen, said = images.encode(noise), texts.encode(_TEXT)
        if len(seen) != len(said):
            raise ModelError(
                f"{files.folder} is no pair: images become vectors of {len(seen)} numbers, and texts of {len(said)}"
            )
        began = time.process_time()
        for _ in range(_RUNS):
            images.encode(noise)
        milliseconds = round((time.process_time() - began) / _RUNS * 1000, 3)
        size = (_NOISE_SIDE, _NOISE_SIDE)
        speed = Speed(images.engine_name, "the CPU", "fp32", milliseconds, size, processor_name())
    reason = f"a pair of encoders: images and texts become vectors of {len(seen)} numbers"
    return Judged(ENCODER_TASK, reason, None, None, (), speed, ())
