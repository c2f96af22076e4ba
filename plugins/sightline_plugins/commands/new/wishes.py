"""What the answers mean: the words for objects, the models that find them, and the URL without its password."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sightline.errors import ConfigurationError
from sightline.graph.wording import suggest
from sightline_plugins.catalogue import entries

GROUPS: Mapping[str, tuple[str, ...]] = {
    "people": ("person",),
    "vehicles": ("car", "van", "truck", "bus", "motorcycle", "bicycle"),
    "animals": ("bird", "cat", "dog", "horse", "sheep", "cow"),
    "faces": ("face",),
    "plates": ("plate",),
}
"""Words for several classes, or for a class that has another name in the catalogue."""
WANTS: Mapping[str, str] = {
    "counts": "count what crosses a line",
    "zone": "report who enters an area and stays there",
    "video": "write a video with boxes drawn into it",
    "events": "save an image of each new object",
}
"""What a pipeline can be for, and what that means."""
_FINDS_BOXES = "detect"
_NAME = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that a pipeline may name: `name` as `model:` takes it, the step that runs it, and what it finds."""

    name: str
    task: str
    classes: tuple[str, ...]
    licence: str


def catalogue_offers() -> Mapping[str, Offer]:
    """Return the models of the catalogue by name, in its order; reads no model."""
    return {name: Offer(name, one.task, one.classes, str(one.licence)) for name, one in entries().items()}


def stored_offer(text: str) -> Offer:
    """Return the model of the store that `store:NAME[@VERSION]` names.

    Raises ConfigurationError when it is not there, and ModelError when it is damaged.
    """
    from sightline_plugins.commands.model_step import model_step
    from sightline_plugins.store import Store

    stored = Store().usable(text)
    element, choice = model_step(stored.model, stored.record.task, ())
    plan, _ = element.plan()
    return Offer(text, choice.task, () if plan is None else plan.labels, stored.record.licence or "licence not stated")


@dataclass(frozen=True, slots=True)
class Camera:
    """A source as it is written: `uri` has `${...}` where there was a password, whose variable is `variable`."""

    name: str
    uri: str
    variable: str | None
    is_live: bool


def read_source(text: str, *, beside: Path = Path()) -> Camera:
    """Return the source that a text means: a URL, or a file, folder or glob, which the pipeline finds from the folder
    `beside` that it is in. A password never gets into the file.
    """
    parts = urlsplit(text)
    if "://" not in text:
        found = text if Path(text).is_absolute() else os.path.relpath(text, beside)
        return Camera(_safe(Path(text).stem), found, None, is_live=text.startswith("/dev/"))
    name = _safe(Path(parts.path).stem or parts.hostname or "")
    is_live = parts.scheme in ("rtsp", "rtsps", "rtmp", "udp", "srt")
    if parts.password is None:
        return Camera(name, text, None, is_live)
    variable = f"{name.upper().replace('-', '_')}_PASSWORD"
    _, _, host = parts.netloc.rpartition("@")
    netloc = f"{parts.username or ''}:${{{variable}}}@{host}"
    return Camera(name, parts._replace(netloc=netloc).geturl(), variable, is_live)


def classes_of(words: Iterable[str], *, catalogue: Mapping[str, Offer]) -> tuple[str, ...]:
    """Return the classes that words mean, such as `people,car`, among those that the models find.

    Raises ConfigurationError for a word that no model of the catalogue knows, with the nearest one.
    """
    known = {name.lower(): name for one in catalogue.values() if one.task == _FINDS_BOXES for name in one.classes}
    found: dict[str, None] = {}
    for word in words:
        plain = word.strip().lower()
        meant = GROUPS.get(plain) or (plain,)
        usable = [known[name] for name in meant if name in known]
        if not usable:
            offered = sorted({*known, *(group for group, names in GROUPS.items() if set(names) & set(known))})
            near = suggest(plain, offered) or f"; known: {', '.join(offered)}"
            raise ConfigurationError(f"{_whose(catalogue)} finds {word.strip()!r}{near}")
        found |= dict.fromkeys(usable)
    return tuple(found)


def choose_model(classes: Sequence[str], *, catalogue: Mapping[str, Offer], pulled: Iterable[str]) -> Offer:
    """Return the model that finds all of these classes: one that is on this machine before others, then the first.

    Raises ConfigurationError when no single model finds them all.
    """
    here = set(pulled)
    able = [entry for entry in catalogue.values() if entry.task == _FINDS_BOXES and set(classes) <= set(entry.classes)]
    if not able:
        raise ConfigurationError(
            f"{_whose(catalogue, single=True)} finds {' and '.join(classes)}: ask for them one at a time, in pipelines "
            "of their own or as steps of one"
        )
    return min(able, key=lambda entry: entry.name not in here)


def _whose(offers: Mapping[str, Offer], *, single: bool = False) -> str:
    """Return who does not find something: no model of the catalogue, or none of the one model that was named."""
    if len(offers) == 1:
        return f"{next(iter(offers))} is not a model that"
    return f"no{' single' if single else ''} model of the catalogue"


def _safe(name: str) -> str:
    """Return a name for a stream, from which the name of a variable can be made as well."""
    plain = _NAME.sub("-", name.lower()).strip("-")
    return plain if plain[:1].isalpha() else f"camera-{plain}".strip("-")
