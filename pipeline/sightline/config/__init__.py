"""YAML to elements, and every mistake in it with its place."""

from sightline.config.checks import check_joining
from sightline.config.document import InvalidConfiguration, LocatedProblem, Place
from sightline.config.file import ConfigurationFile
from sightline.config.load import (
    check_description,
    description_from,
    load_description,
    parse_steps,
    parts_from,
    read_document,
    source_from,
)
from sightline.config.sources import name_problems, read_streams

__all__ = [
    "ConfigurationFile",
    "InvalidConfiguration",
    "LocatedProblem",
    "Place",
    "check_description",
    "check_joining",
    "description_from",
    "load_description",
    "name_problems",
    "parse_steps",
    "parts_from",
    "read_document",
    "read_streams",
    "source_from",
]
