"""Read the folder that an export of NVIDIA TAO leaves: `nvinfer_config.txt`, `labels.txt` and the ONNX file.

`nvinfer_config.txt` (`--gen_ds_config` of `tao ... export`, and the deployable versions of NGC) holds settings of
nvinfer that are to be copied below `[property]` of a configuration of DeepStream: they mean what they mean there, and
have no section. It names neither the model nor the labels. Newer models of NGC have a whole `nvdsinfer_config.yaml`
instead, which is a configuration of DeepStream.
"""

from __future__ import annotations

from pathlib import Path

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import KNOWN_SUFFIXES
from sightline_plugins.infer.card import MAX_BYTES
from sightline_plugins.model_import.deepstream import PROPERTY, read_settings, read_text, sections_of
from sightline_plugins.model_import.package import ModelPackage

CONFIGURATION = "nvinfer_config.txt"
_LABELS = "labels.txt"
_ENCRYPTED = (".etlt", ".tlt")
_MODEL, _LABELFILE, _MODEL_ENCRYPTED = "onnx-file", "labelfile-path", "tlt-encoded-model"
_QUANTIZED = ".int8"


def is_tao(path: Path) -> bool:
    """Whether a file has the name of TAO's settings, and is small enough to be that."""
    return path.name == CONFIGURATION and path.is_file() and path.stat().st_size <= MAX_BYTES


def read_tao(configuration: Path) -> ModelPackage:
    """Return the model in the folder of an `nvinfer_config.txt`; a card beside the ONNX file goes first.

    Raises ModelError for settings that are wrong, a folder without an ONNX file or with several, and encrypted models.
    """
    sections = sections_of(configuration, read_text(configuration).splitlines(), section=PROPERTY)
    settings = sections[PROPERTY]
    if settings.get(_MODEL) is None:
        settings[_MODEL] = _model(configuration.parent, encrypted=settings.get(_MODEL_ENCRYPTED)).name
    if settings.get(_LABELFILE) is None and (configuration.parent / _LABELS).is_file():
        settings[_LABELFILE] = _LABELS
    return read_settings(configuration, sections, kind="tao", maker="NVIDIA TAO")


def _model(folder: Path, *, encrypted: str | None) -> Path:
    found = [path for path in sorted(folder.glob("*.onnx")) if not path.stem.endswith(_QUANTIZED)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(
            f"{folder} has several models ({', '.join(path.name for path in found)}): add a line {_MODEL}=FILE to "
            f"{CONFIGURATION}"
        )
    others = [path.name for path in sorted(folder.iterdir()) if path.suffix.lower() in _ENCRYPTED]
    named = [*others, *([] if encrypted is None else [encrypted])]
    if named:
        raise ModelError(f"{folder} has no ONNX file; {named[0]} {KNOWN_SUFFIXES[_ENCRYPTED[0]]}")
    raise ModelError(f"{folder} has {CONFIGURATION}, and no ONNX file: put the exported model beside it")
