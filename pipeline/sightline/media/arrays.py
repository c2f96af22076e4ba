"""Arrays that several hold: nobody writes to them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Values = TypeVar("Values", bound=npt.NDArray[Any])


def read_only(array: Values) -> Values:
    """The array itself where nobody can write to it, else a view of that kind; whoever made it can still write."""
    if not array.flags.writeable:
        return array
    view: Any = np.ndarray.view(array)
    view.setflags(write=False)
    kept: Values = view
    return kept
