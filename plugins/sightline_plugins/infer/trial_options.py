"""Options of the models that are tried beside the one that serves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sightline.graph.described import Described
from sightline.graph.fields import Fraction
from sightline.media.time import Duration


class TrialLimits(Described):
    """What a model must keep to while it is on trial. An exception always ends the trial."""

    max_slowdown: Annotated[float, Field(ge=1, le=1000)] | None = 3.0
    """How many times as long as the former model it may take for a frame (median). `null`: any time."""
    max_latency: Annotated[Duration, Field(gt=0)] | None = None
    """How long a batch may take from when it is given to the model to its result (median). Default: any time."""
    max_invalid: Fraction = 0.0
    """Which share of its runs may have outputs that are not finite numbers."""
