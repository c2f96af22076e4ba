"""What cards and elements say about how overlapping boxes are thinned out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Suppression(BaseModel):
    """The method and its settings; None where nothing is said."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    method: Literal["hard", "soft", "fusion", "none"] | None = None
    """What becomes of boxes that overlap: the less confident is dropped (`hard`), loses confidence (`soft`), both
    become one (`fusion`), or nothing (`none`). The head's family decides when not given: `hard`, or none at all."""
    decay: Literal["gaussian", "linear"] | None = None
    """How `soft` takes confidence away: by a Gaussian of the overlap, or above `iou` as much as overlaps; `gaussian`
    when not given."""
    sigma: Annotated[float, Field(gt=0, le=10)] | None = None
    """Width of the Gaussian; the smaller, the more is lost; 0.5 when not given."""
