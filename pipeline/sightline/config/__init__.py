"""YAML to elements, and every mistake in it with its place."""

from sightline.config.documents import read_document
from sightline.config.load import (
    check_description,
    description_from,
    load_description,
    parse_steps,
    source_from,
)
from sightline.config.problems import InvalidConfiguration, LocatedProblem, Place
from sightline.config.sources_file import read_streams

__all__ = [
    "InvalidConfiguration",
    "LocatedProblem",
    "Place",
    "check_description",
    "description_from",
    "load_description",
    "parse_steps",
    "read_document",
    "read_streams",
    "source_from",
]
