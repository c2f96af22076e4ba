"""Other YAML files than pipelines, such as model cards, read as carefully: limits, places, every mistake at once."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from sightline.config.environment import Environment
from sightline.config.nodes import Scalar, Table
from sightline.config.problems import InvalidConfiguration, Place
from sightline.config.validation import Validator
from sightline.config.yaml_tree import parse, read_file

_Model = TypeVar("_Model", bound=BaseModel)


def read_document(model: type[_Model], path: Path) -> _Model:
    """The model that a YAML file describes; an empty file is one with all defaults. Raises InvalidConfiguration."""
    name = str(path)
    document = parse(read_file(path, name=name), name=name)
    start = Place(name, 1, 1)
    root = document.root or Table(start)
    if isinstance(root, Scalar) and root.value is None:
        root = Table(start)
    validator = Validator(Environment({}), base_folder=None)
    made = validator.model(model, root, key=(), place=start)
    problems = sorted((*document.problems, *validator.problems), key=lambda problem: problem.place)
    if made is None or problems:
        raise InvalidConfiguration(problems)
    return made
