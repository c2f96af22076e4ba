"""A table of NumPy columns that grows and shrinks by rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]

_FIRST_ROWS = 16


class ColumnTable:
    """Columns by name, each with a dtype, a shape for each row, and the value of new rows.

    `table["name"]` is a view of the rows there are; it is valid until rows are added or removed.
    """

    def __init__(self, fills: Mapping[str, Column]) -> None:
        self._fills = dict(fills)
        self._count = 0
        self._data = {name: np.empty((_FIRST_ROWS, *fill.shape), fill.dtype) for name, fill in fills.items()}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> Column:
        return self._data[name][: self._count]

    def add(self, count: int) -> Rows:
        """Append rows of initial values and return their numbers."""
        first, self._count = self._count, self._count + count
        for name, data in self._data.items():
            if self._count > len(data):
                grown = np.empty((2 * self._count, *data.shape[1:]), data.dtype)
                grown[:first] = data[:first]
                self._data[name] = data = grown
            data[first : self._count] = self._fills[name]
        return np.arange(first, self._count)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Remove the rows that the mask leaves out; the others move up and keep their order."""
        kept = int(mask.sum())
        for data in self._data.values():
            data[:kept] = data[: self._count][mask]
        self._count = kept

    def widen(self, name: str, width: int) -> None:
        """Give each row of a column (N, W) at least `width` values; added values are the last initial one."""
        fill = self._fills[name]
        if width > len(fill):
            last = fill[-1:] if len(fill) else np.zeros(1, fill.dtype)
            self._fills[name] = np.concatenate([fill, np.repeat(last, width - len(fill))])
            wide = np.empty((len(self._data[name]), width), fill.dtype)
            wide[:] = self._fills[name]
            wide[:, : len(fill)] = self._data[name]
            self._data[name] = wide
