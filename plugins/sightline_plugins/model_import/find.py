"""Find out what a path is: an ONNX file, or what DeepStream, TAO, Hugging Face, Triton or Ultralytics leave."""

from __future__ import annotations

from pathlib import Path

from sightline.errors import ModelError
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.model_import.deepstream import is_deepstream, read_deepstream
from sightline_plugins.model_import.huggingface import CONFIGURATION as HUGGINGFACE
from sightline_plugins.model_import.huggingface import is_huggingface, read_huggingface
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.model_import.tao import CONFIGURATION as TAO
from sightline_plugins.model_import.tao import is_tao, read_tao
from sightline_plugins.model_import.triton import CONFIGURATION as TRITON
from sightline_plugins.model_import.triton import is_triton, models_of, read_triton
from sightline_plugins.model_import.ultralytics import AUTHOR, read_ultralytics
from sightline_plugins.store import Origin

_CONFIGURATIONS = ("config_infer_primary*", "config_infer*", "pgie*", "sgie*", "nvinfer*", "nvdsinfer*")
_SUFFIXES = (".txt", ".yml", ".yaml")
_QUANTIZED = ".int8"
_PLACES = (".", "weights", "model", "models")
_FEW = 8


def read_package(path: Path) -> ModelPackage:
    """Return the model that a path holds: an ONNX file, a configuration that names one, or a folder of either.

    Raises ModelError when there is none, or more than one, and for files that cannot be read.
    """
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise ModelError(f"there is no file or folder {path}")
    if path.name == HUGGINGFACE:
        return read_huggingface(path.parent)
    if path.name == TRITON:
        return read_triton(path.parent)
    if is_tao(path):
        return read_tao(path)
    if path.suffix.lower() in _SUFFIXES:
        if not is_deepstream(path):
            raise ModelError(
                f"{path} is no configuration of nvinfer (it has no section [property]): give an ONNX file, a "
                "configuration of DeepStream, or a folder"
            )
        return read_deepstream(path)
    return _of_file(path)


def _of_folder(folder: Path) -> ModelPackage:
    configurations = _configurations(folder)
    if len(configurations) > 1:
        raise ModelError(f"{folder} has several models: give one of {_listed(configurations, folder)}")
    if configurations:
        return read_deepstream(configurations[0])
    if is_tao(folder / TAO):
        return read_tao(folder / TAO)
    if is_huggingface(folder):
        return read_huggingface(folder)
    if is_triton(folder):
        return read_triton(folder)
    models = _models(folder)
    if len(models) > 1:
        raise ModelError(f"{folder} has several models: give one of {_listed(models, folder)}")
    if not models:
        return _of_repository(folder)
    return _of_file(models[0])


def _of_repository(folder: Path) -> ModelPackage:
    """Return the one model of a repository of Triton."""
    models = models_of(folder)
    if len(models) > 1:
        raise ModelError(f"{folder} is a repository of several models: give one of {_listed(models, folder)}")
    if not models:
        raise ModelError(f"{folder} has no ONNX file{_others(folder)}")
    return read_triton(models[0])


def _of_file(model: Path) -> ModelPackage:
    facts = read_facts(model)
    if facts.metadata.get("author") == AUTHOR:
        return read_ultralytics(model, facts.metadata)
    place = str(model.resolve())
    return ModelPackage(model, own_card(model), Origin("onnx", place), name_of(model.stem))


def _configurations(folder: Path) -> list[Path]:
    """Return the configurations of the first kind that the folder has; primary detectors go first."""
    for pattern in _CONFIGURATIONS:
        found = sorted(path for path in folder.glob(pattern) if path.suffix.lower() in _SUFFIXES and path.is_file())
        found = [path for path in found if path.name != TAO and is_deepstream(path)]
        if found:
            return found
    return []


def _models(folder: Path) -> list[Path]:
    for place in _PLACES:
        found = sorted((folder / place).glob("*.onnx"))
        plain = [path for path in found if not path.stem.endswith(_QUANTIZED)]
        if plain:
            return plain
    return []


def _others(folder: Path) -> str:
    from sightline_plugins.engines.model_file import KNOWN_SUFFIXES

    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in KNOWN_SUFFIXES:
            return f"; {path.name} {KNOWN_SUFFIXES[path.suffix.lower()]}"
    return ": export the model to ONNX, or give the folder that has it"


def _listed(paths: list[Path], folder: Path) -> str:
    names = ", ".join(str(folder / path.relative_to(folder)) for path in paths[:_FEW])
    return names + (", ..." if paths[_FEW:] else "")
