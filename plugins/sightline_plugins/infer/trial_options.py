"""Options of the models that are tried beside the one that serves."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from sightline.graph.described import Described
from sightline.media.time import Duration
from sightline_plugins.engines.address import ModelSource

_PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d{1,6})?)\s*%\s*")


def _of_percent(value: object) -> object:
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else float(match[1]) / 100


Share = Annotated[
    float,
    Field(ge=0, le=1),
    BeforeValidator(_of_percent),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "maximum": 1, "examples": ["10%", 0.1]}),
]
"""A number from 0 to 1, or a percentage such as `10%`."""


class TrialLimits(Described):
    """What a model must keep to while it is on trial. An exception always ends the trial."""

    max_slowdown: Annotated[float, Field(ge=1, le=1000)] | None = 3.0
    """How many times as long as the other model it may take for a run (median). `null`: any time."""
    max_latency: Annotated[Duration, Field(gt=0)] | None = None
    """How long a batch may take from when it is given to the model to its result (median). Default: any time."""
    max_invalid: Share = 0.0
    """Which share of its runs may have outputs that are not finite numbers."""


class CanaryOptions(TrialLimits):
    """A second model that serves some of the streams, until it is promoted, taken out, or fails."""

    model: ModelSource
    """The second model, as in the option `model`."""
    share: Annotated[Share, Field(gt=0)] = 0.1
    """Which share of the streams it gets: at least one, chosen by their names, so that they stay the same."""
    compare: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Compare it with the first model on every n-th batch of its streams, and on the first ten: both then run."""
    max_disagreement: Share = 0.5
    """How much its results may differ: 1 minus the share of objects that both find alike (label, and half of the box),
    over the newest 50 frames that were compared and hold objects."""
    prove: Annotated[Duration, Field(gt=0)] = 600_000_000_000
    """After this time without trouble it can be promoted. Before that, to make it the model of the step is refused."""
    prove_frames: Annotated[int, Field(ge=1, le=1_000_000_000)] = 500
    """On so many frames it has to serve until then."""
    promote: bool = False
    """Promote it by itself, as soon as it can be: it becomes the model of the step."""


class ShadowOptions(Described):
    """A second model that runs on a sample of the frames, and is compared with the first one; results stay the same."""

    model: ModelSource
    """The second model, as in the option `model`."""
    every: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Of the frames of each stream that the first model looks at, it gets every n-th."""
    max_load: Annotated[Share, Field(gt=0)] = 0.2
    """Which share of the time it may compute. What comes while it computes or rests is dropped and counted."""
