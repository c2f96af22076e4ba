"""Raw outputs of models that are kept for users' own code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One output of a model for one frame.

    `frame` is the row of the frame in its batch, `element` the step that kept it, `name` the output's name in the
    model. `values` are as the model gave them, without the batch dimension; nobody writes to them.
    """

    frame: int
    element: str
    name: str
    values: npt.NDArray[np.generic] | npt.NDArray[Any]
