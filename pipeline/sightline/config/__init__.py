"""YAML to elements, and every mistake in it with its place."""

from sightline.config.documents import read_document
from sightline.config.joining import check_joining
from sightline.config.load import (
    check_description,
    description_from,
    load_description,
    parse_steps,
)
from sightline.config.parts import parts_from, source_from
from sightline.config.problems import InvalidConfiguration, LocatedProblem, Place
from sightline.config.sources_file import read_streams
from sightline.config.stream_names import name_problems

__all__ = [
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
