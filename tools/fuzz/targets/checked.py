"""Configurations, model cards and models: `sightline check` says what is wrong with them, in its own words."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections import Counter
from pathlib import Path
from random import Random

from sightline.cli.main import WRONG, execute
from tools.fuzz.mutations import mutated
from tools.fuzz.targets.target import Mutant, Trouble
from tools.fuzz.yaml_mutations import mutated_yaml

ROOT = Path(__file__).resolve().parents[3]
_MOST_TEXT = 4_000_000
_CARD_OWNERS = ("vehicle", "street", "plate", "plate_text")
_STEP = {"vehicle": "classify", "street": "detect", "plate": "detect", "plate_text": "read"}


class ConfigurationTarget:
    """Our configurations, mutated; inputs and models are where they were."""

    extra_mib = 256

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        del shared
        self._texts = [path.read_text() for path in sorted((ROOT / "configs").glob("*.yaml"))]
        self._folder = folder / "configs"
        self._folder.mkdir()
        for name in ("models", "sample_videos"):
            (folder / name).symlink_to(ROOT / name)

    def mutant(self, random: Random) -> Mutant:
        """One of our configurations with other keys, values, depth, aliases or characters."""
        return Mutant(mutated_yaml(random.choice(self._texts), self._texts, random), ".yaml")

    def exercise(self, path: Path) -> str:
        """`accepted` or `refused`."""
        to = self._folder / "fuzz.yaml"
        shutil.copyfile(path, to)
        return checked(to)


class CardTarget:
    """Cards of our models, mutated."""

    extra_mib = 256

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        del shared
        self._texts = [(ROOT / "models" / f"{name}.yaml").read_text() for name in _CARD_OWNERS]
        self._folder = folder
        for name in _CARD_OWNERS:
            shutil.copyfile(ROOT / "models" / f"{name}.onnx", folder / f"{name}.onnx")
            (folder / f"use-{name}.yaml").write_text(_pipeline(name))

    def mutant(self, random: Random) -> Mutant:
        """A card with other keys, values, depth, aliases or characters; its suffix says whose it is."""
        number = random.randrange(len(_CARD_OWNERS))
        data = mutated_yaml(self._texts[number], self._texts, random)
        return Mutant(data, f".{_CARD_OWNERS[number]}.yaml")

    def exercise(self, path: Path) -> str:
        """`accepted` or `refused`."""
        owner = path.name.split(".")[-2]
        card = self._folder / f"{owner}.yaml"
        shutil.copyfile(path, card)
        try:
            return checked(self._folder / f"use-{owner}.yaml")
        finally:
            card.unlink()


class ModelTarget:
    """An ONNX file of ours, mutated: header and graph more often than weights."""

    extra_mib = 512

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        del shared
        self._model = (ROOT / "models" / "vehicle.onnx").read_bytes()
        self._others = [self._model, (ROOT / "models" / "plate.onnx").read_bytes()]
        self._folder = folder
        shutil.copyfile(ROOT / "models" / "vehicle.yaml", folder / "vehicle.yaml")
        (folder / "use-vehicle.yaml").write_text(_pipeline("vehicle"))

    def mutant(self, random: Random) -> Mutant:
        """The model with other bytes."""
        return Mutant(mutated(self._model, self._others, random), ".onnx")

    def exercise(self, path: Path) -> str:
        """`accepted` or `refused`."""
        shutil.copyfile(path, self._folder / "vehicle.onnx")
        return checked(self._folder / "use-vehicle.yaml")


def checked(configuration: Path) -> str:
    """How `sightline check` answered. Raises Trouble when it is not with a list of mistakes or with none."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = execute(["check", str(configuration)])
    text = told.getvalue()
    if code not in (0, WRONG):
        raise Trouble(f"exit code {code}: {text[:500]}")
    if len(text) > _MOST_TEXT:
        raise Trouble(f"{len(text)} characters of messages: {text[:200]}")
    if "Traceback" in text or "internal error" in text:
        raise Trouble(text[:500])
    if code == WRONG and not text.strip():
        raise Trouble("refused without a message")
    if again := [line for line, count in Counter(text.splitlines()).items() if count > 1 and line.strip()]:
        raise Trouble(f"says this more than once: {again[0][:300]}")
    return "accepted" if code == 0 else "refused"


def _pipeline(model: str) -> str:
    source = "sources: {cam: {pattern: bars, size: [64, 48], frames: 5}}\n"
    return f"{source}pipeline: [{_STEP[model]}: {{model: {model}.onnx}}]\n"
