"""Settings of heads: what all of them share."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from sightline_plugins.infer.heads.head import Reading

ScoreForm = Literal["auto", "probabilities", "logits"]


class HeadOptions(BaseModel):
    """Settings of a head: immutable, no other keys than its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Options = TypeVar("Options", bound=HeadOptions)


def options_of(reading: Reading, usual: Options) -> Options:
    """The options of a reading; `usual`, which are of the same kind, where it has none."""
    return reading.options if isinstance(reading.options, type(usual)) else usual
