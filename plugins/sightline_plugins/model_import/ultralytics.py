"""Read an export of Ultralytics: the metadata in the ONNX file, and what the folder of its training tells.

The exporter writes `description`, `license`, `task`, `names`, `imgsz`, `stride` and `args` into the file
(ultralytics/engine/exporter.py). A folder of a training run has `args.yaml`, `results.csv` and `weights/` beside it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sightline.errors import ModelError
from sightline_plugins.infer.card import read_metadata
from sightline_plugins.infer.facts import find_inputs, read_facts
from sightline_plugins.infer.tasks import TASKS
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.store import Accuracy, Origin

AUTHOR = "Ultralytics"
_MAX_BYTES = 10_000_000
_TRAINED_ON = " trained on "
_NAMES_OF_WEIGHTS = ("best", "last", "model")
_FIGURE = "metrics/mAP50-95"
_WEIGHT_OF_AP, _WEIGHT_OF_AP50 = 0.9, 0.1
"""How Ultralytics weighs both figures to choose the epoch whose weights are `best` (utils/metrics.py: fitness)."""
_OTHER_WEIGHTS = (".pt", ".engine", ".torchscript", ".tflite", ".pb", ".mlpackage")


def read_ultralytics(model: Path, metadata: Mapping[str, str]) -> ModelPackage:
    """Return the model of an export; a card beside it goes before what the metadata says. Raises ModelError."""
    exported = read_metadata(metadata)
    card: dict[str, Any] = {}
    if exported.task is not None:
        card["task"] = exported.task if exported.task in TASKS else "detect"
    if exported.labels:
        card["labels"] = list(exported.labels)
    if exported.size_wh is not None and _is_open(model):
        card["input"] = {"size": list(exported.size_wh)}
    description = metadata.get("description", "")
    trained_on = description.partition(_TRAINED_ON)[2].strip() or _data(model)
    if trained_on:
        card["trained_on"] = Path(trained_on).name if "/" in trained_on else trained_on
    if metadata.get("license"):
        card["licence"] = metadata["license"]
    made = ", ".join(filter(None, (description.partition(_TRAINED_ON)[0], metadata.get("date", ""))))
    card["source"] = f"Ultralytics {metadata.get('version', '')} ({made})".replace("  ", " ").replace(" ()", "")
    folder = _run_folder(model)
    name = name_of(folder.name if model.stem in _NAMES_OF_WEIGHTS else model.stem)
    return ModelPackage(
        model,
        {**card, **own_card(model)},
        Origin("ultralytics", str(model.resolve())),
        name,
        accuracy=tuple(_accuracy(model)),
        not_taken_over=tuple(_left_out(model, metadata)),
    )


def _is_open(model: Path) -> bool:
    """Whether a model leaves the size of its input open. One that takes no image is refused when it is judged."""
    with suppress(ModelError):
        inputs = find_inputs(read_facts(model).inputs)
        return None in (inputs.width, inputs.height)
    return False


def _run_folder(model: Path) -> Path:
    """Return the folder of the training run, or else the folder that the model is in."""
    folder = model.resolve().parent
    return folder.parent if folder.name == "weights" else folder


def _data(model: Path) -> str:
    """Return the data that a run's `args.yaml` names."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = _run_folder(model) / "args.yaml"
    with suppress(OSError, UnicodeDecodeError, YAMLError):
        if path.stat().st_size <= _MAX_BYTES:
            args = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
            return str(args.get("data") or "") if isinstance(args, dict) else ""
    return ""


def _accuracy(model: Path) -> Iterator[Accuracy]:
    """Yield the accuracy that the training measured for these weights, from its `results.csv`.

    `best` are the weights of the epoch with the highest fitness, `last` those of the last one; of other files it is
    not known which epoch they are of.
    """
    path = _run_folder(model) / "results.csv"
    if model.stem not in ("best", "last"):
        return
    with suppress(OSError, csv.Error, ValueError, LookupError, AttributeError):
        if path.stat().st_size > _MAX_BYTES:
            return
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{key.strip(): value.strip() for key, value in row.items()} for row in csv.DictReader(file)]
        (kind,) = {key[len(_FIGURE) :] for key in rows[0] if key.startswith(f"{_FIGURE}(B)")} or {""}
        figures = [(float(row[_FIGURE + kind]), float(row["metrics/mAP50" + kind]), row["epoch"]) for row in rows]
        best = max(figures, key=lambda one: _WEIGHT_OF_AP * one[0] + _WEIGHT_OF_AP50 * one[1])
        ap, ap50, epoch = best if model.stem == "best" else figures[-1]
        on = f"the validation images of its training (results.csv, epoch {epoch})"
        yield Accuracy("mAP50-95", ap, on)
        yield Accuracy("mAP50", ap50, on)


def _left_out(model: Path, metadata: Mapping[str, str]) -> Iterator[str]:
    folder = _run_folder(model)
    others = sorted({path.name for place in {folder, model.parent} for path in place.iterdir() if _is_weights(path)})
    if others:
        yield f"{', '.join(others)}: the ONNX file is what runs"
    if metadata.get("task") == "obb":
        yield "task obb: oriented boxes are found by `detect`"
    if metadata.get("half", "").lower() == "true" or "'half': True" in metadata.get("args", ""):
        yield "half: the file is in FP16; on CPUs it is computed as FP32"


def _is_weights(path: Path) -> bool:
    return path.suffix in _OTHER_WEIGHTS
