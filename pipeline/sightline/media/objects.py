"""Objects: everything found on the frames of a batch, as one immutable table of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sightline.media.shapes import Mask, Skeleton

Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Which element made an object, and what its class ids mean."""

    element: str
    labels: tuple[str, ...] = ()

    def label(self, class_id: int) -> str:
        """The name of a class; its number when the model has no name for it."""
        return self.labels[class_id] if 0 <= class_id < len(self.labels) else str(class_id)


STRUCTURES = frozenset({"keypoints", "skeleton", "corners", "mask", "embedding"})
"""Names of extra columns that are no attributes."""

_COLUMNS: Mapping[str, tuple[np.dtype[Any], tuple[int, ...], float]] = {
    "frame": (np.dtype(np.int32), (), 0),
    "xyxy": (np.dtype(np.float32), (4,), 0),
    "confidence": (np.dtype(np.float32), (), 1),
    "class_id": (np.dtype(np.int32), (), 0),
    "track_id": (np.dtype(np.int64), (), -1),
    "parent": (np.dtype(np.int32), (), -1),
    "origin": (np.dtype(np.int16), (), 0),
}


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """N objects as columns. A table takes over the arrays that it is made of: they are read-only from then on, and
    tables share those that stay equal. To change a column, copy it and make another table with `with_columns`.

    frame       int32 (N,)     row of the frame in the batch, ascending
    xyxy        float32 (N, 4) box in pixels of the source image, half-open
    confidence  float32 (N,)   0..1
    class_id    int32 (N,)     number of the class within its origin's labels
    track_id    int64 (N,)     -1 for none; unique per stream and run
    parent      int32 (N,)     row in this table of the object it was found on; -1 for none
    origin      int16 (N,)     index into `origins`
    extra       name -> (N, ...) columns that exist only because an element made them. Those named in `STRUCTURES` have
                a meaning of their own; other one-dimensional ones are the object's attributes:
                numbers, strings, or tuples of strings in a column of objects

    keypoints   float32 (N, K, 3) x, y in pixels of the source image and confidence; NaN where there is none
    skeleton    object (N,) the `Skeleton` that says what the keypoints are, or None
    corners     float32 (N, 4, 2) corners of an oriented box in pixels of the source image, clockwise on the screen
    mask        object (N,) the `Mask` of the object's pixels, or None
    embedding   float32 (N, D) appearance of the object, of length 1
    """

    frame: npt.NDArray[np.int32]
    xyxy: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]
    track_id: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int32]
    origin: npt.NDArray[np.int16]
    origins: tuple[Origin, ...] = ()
    extra: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.frame)
        shapes = {(): (count,), (4,): (count, 4)}
        for name, (dtype, tail, _) in _COLUMNS.items():
            column = getattr(self, name)
            if column.shape != shapes[tail] or column.dtype != dtype:
                raise ValueError(
                    f"objects.{name} must be {dtype} of shape {(count, *tail)}, not {column.dtype} of {column.shape}"
                )
            column.setflags(write=False)
        for name, column in self.extra.items():
            if len(column) != count:
                raise ValueError(f"objects.extra[{name!r}] must have {count} rows, not {len(column)}")
            column.setflags(write=False)

    @classmethod
    def empty(cls) -> Objects:
        """A table without rows (always the same one)."""
        return _EMPTY

    @classmethod
    def from_columns(
        cls,
        *,
        frame: npt.ArrayLike,
        xyxy: npt.ArrayLike,
        confidence: npt.ArrayLike,
        class_id: npt.ArrayLike,
        source: Origin,
        track_id: npt.ArrayLike | None = None,
        extra: Mapping[str, Column] | None = None,
    ) -> Objects:
        """A table of objects that one element found; dtypes are converted, the columns left out get their default.
        Arrays of the right dtype are taken over.
        """
        rows = np.asarray(frame, np.int32)
        count = rows.size
        return cls(
            frame=rows,
            xyxy=np.asarray(xyxy, np.float32).reshape(count, 4),
            confidence=np.asarray(confidence, np.float32),
            class_id=np.asarray(class_id, np.int32),
            track_id=np.full(count, -1, np.int64) if track_id is None else np.asarray(track_id, np.int64),
            parent=np.full(count, -1, np.int32),
            origin=np.zeros(count, np.int16),
            origins=(source,),
            extra=extra or {},
        )

    def __len__(self) -> int:
        return len(self.frame)

    def __iter__(self) -> Iterator[ObjectView]:
        return (ObjectView(self, row) for row in range(len(self)))

    def __getitem__(self, row: int) -> ObjectView:
        return ObjectView(self, range(len(self))[row])

    @property
    def attributes(self) -> dict[str, Column]:
        """The extra columns that hold one value an object; names that start with `_` are private."""
        return {
            name: column
            for name, column in self.extra.items()
            if column.ndim == 1 and name[0] != "_" and name not in STRUCTURES
        }

    def with_columns(self, **columns: Column) -> Objects:
        """Return this table with those columns replaced; names that are no fixed column go to `extra`."""
        take = columns.pop
        return Objects(
            frame=take("frame", self.frame),
            xyxy=take("xyxy", self.xyxy),
            confidence=take("confidence", self.confidence),
            class_id=take("class_id", self.class_id),
            track_id=take("track_id", self.track_id),
            parent=take("parent", self.parent),
            origin=take("origin", self.origin),
            origins=self.origins,
            extra={**self.extra, **columns} if columns else self.extra,
        )

    def select(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]) -> Objects:
        """The rows of a mask (N,) or of an index array, in its order; a parent that goes leaves -1 behind."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        parent = self.parent[index]
        if (parent >= 0).any():
            moved = np.full(len(self) + 1, -1, np.int32)
            moved[index] = np.arange(len(index), dtype=np.int32)
            parent = moved[parent]
        return Objects(
            frame=self.frame[index],
            xyxy=self.xyxy[index],
            confidence=self.confidence[index],
            class_id=self.class_id[index],
            track_id=self.track_id[index],
            parent=parent,
            origin=self.origin[index],
            origins=self.origins,
            extra={name: column[index] for name, column in self.extra.items()},
        )

    def of_frame(self, frame: int) -> Objects:
        """The objects of one frame of the batch (rows are ascending by frame, so this is a slice, not a search)."""
        first, last = np.searchsorted(self.frame, (frame, frame + 1))
        if first == 0 and last == len(self):
            return self
        return self.select(np.arange(first, last))

    def labels(self) -> list[str]:
        """The name of each object's class."""
        if len(self.origins) == 1:
            known, numbers = self.origins[0].labels, self.class_id.tolist()
            return [known[number] if 0 <= number < len(known) else str(number) for number in numbers]
        return [
            self.origins[origin].label(class_id)
            for origin, class_id in zip(self.origin.tolist(), self.class_id.tolist(), strict=True)
        ]

    def has_label(self, labels: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Mask (N,) of the objects whose class has one of these names."""
        wanted = frozenset(labels)
        mask = np.zeros(len(self), np.bool_)
        for number, origin in enumerate(self.origins):
            known = [index for index, label in enumerate(origin.labels) if label in wanted]
            mask |= (self.origin == number) & np.isin(self.class_id, known)
        return mask

    @classmethod
    def concat(cls, tables: Sequence[Objects]) -> Objects:
        """One table of the rows of all, in order of frame, and of the tables within a frame.

        Equal origins become one. An extra column that a table lacks is filled (NaN, -1, False or an empty string).
        """
        filled = [table for table in tables if len(table)]
        if len(filled) <= 1:
            return filled[0] if filled else cls.empty()
        origins = tuple(dict.fromkeys(origin for table in filled for origin in table.origins))
        starts = np.cumsum([0, *(len(table) for table in filled)])
        columns = {
            name: np.concatenate([getattr(table, name) for table in filled])
            for name in ("frame", "xyxy", "confidence", "class_id", "track_id")
        }
        joined = cls(
            **columns,
            parent=np.concatenate(
                [
                    np.where(table.parent >= 0, table.parent + start, -1).astype(np.int32)
                    for table, start in zip(filled, starts[:-1], strict=True)
                ]
            ),
            origin=np.concatenate([_renumber(table, origins) for table in filled]),
            origins=origins,
            extra=_concat_extra(filled),
        )
        order = np.argsort(joined.frame, kind="stable")
        return joined if np.array_equal(order, np.arange(len(order))) else joined.select(order)

    def with_children(self, children: Objects, *, parents: npt.ArrayLike) -> Objects:
        """This table and objects found on its own: `parents` holds the row of this table that each was found on.

        Where it holds -1, a child keeps the parent that it has among the children.
        """
        if not len(children):
            return self
        place = np.empty(len(self) + len(children), np.int32)
        order = np.argsort(np.concatenate([self.frame, children.frame]), kind="stable")
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = np.asarray(parents, np.int32)
        joined = Objects.concat([self, children])
        parent = joined.parent.copy()
        parent[place[len(self) :][rows >= 0]] = place[rows[rows >= 0]]
        return joined.with_columns(parent=parent)

    def with_values(self, name: str, *, rows: npt.ArrayLike, values: Column) -> Objects:
        """This table with an extra column that holds `values` at `rows`; other rows keep theirs, or hold nothing.

        Numbers that were not there before are NaN or -1, strings are empty, objects are None.
        """
        before = self.extra.get(name)
        column = _padded(_empty_column(len(self), like=values), like=before)
        if before is not None:
            column = column.astype(np.result_type(column, before) if column.dtype != before.dtype else column.dtype)
            column[(slice(None), *(slice(size) for size in before.shape[1:]))] = before
        index: tuple[Any, ...] = (np.asarray(rows, np.intp), *(slice(size) for size in values.shape[1:]))
        column[index] = values
        return self.with_columns(**{name: column})


def _renumber(table: Objects, origins: tuple[Origin, ...]) -> npt.NDArray[np.int16]:
    numbers = np.array([origins.index(origin) for origin in table.origins], np.int16)
    return numbers[table.origin]


def _concat_extra(tables: Sequence[Objects]) -> dict[str, Column]:
    names = dict.fromkeys(name for table in tables for name in table.extra)
    return {name: _concat_column(name, tables) for name in names}


def _concat_column(name: str, tables: Sequence[Objects]) -> Column:
    present = [table.extra[name] for table in tables if name in table.extra]
    widest = max(present, key=lambda column: column.shape[1:])
    columns = [
        _padded(table.extra.get(name, _empty_column(len(table), like=present[0])), like=widest) for table in tables
    ]
    return np.concatenate(columns)


def _empty_column(count: int, *, like: Column) -> Column:
    fill: Any = {"f": np.nan, "i": -1, "u": 0, "b": False, "O": None}.get(like.dtype.kind, "")
    return np.full((count, *like.shape[1:]), fill, like.dtype)


def _padded(column: Column, *, like: Column | None) -> Column:
    """The column as wide as `like` at least, with nothing in the places that it lacks (people and hands: 17 and 21)."""
    if like is None or column.ndim != like.ndim:
        return column
    tail = tuple(max(own, other) for own, other in zip(column.shape[1:], like.shape[1:], strict=True))
    if tail == column.shape[1:]:
        return column
    wide = _empty_column(len(column), like=np.empty((0, *tail), column.dtype))
    wide[(slice(None), *(slice(size) for size in column.shape[1:]))] = column
    return wide


@dataclass(frozen=True, slots=True)
class ObjectView:
    """One row of a table, for people; elements work on columns."""

    table: Objects
    row: int

    @property
    def label(self) -> str:
        """The name of the class."""
        origin = self.table.origins[int(self.table.origin[self.row])]
        return origin.label(self.class_id)

    @property
    def xyxy(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom in pixels of the source image."""
        left, top, right, bottom = self.table.xyxy[self.row].tolist()
        return left, top, right, bottom

    @property
    def confidence(self) -> float:
        """How sure the model is, 0..1."""
        return float(self.table.confidence[self.row])

    @property
    def class_id(self) -> int:
        """The number of the class."""
        return int(self.table.class_id[self.row])

    @property
    def track_id(self) -> int | None:
        """The number of the track, None when it has none."""
        number = int(self.table.track_id[self.row])
        return None if number < 0 else number

    @property
    def parent(self) -> ObjectView | None:
        """The object this one was found on."""
        row = int(self.table.parent[self.row])
        return None if row < 0 else ObjectView(self.table, row)

    @property
    def keypoints(self) -> npt.NDArray[np.float32] | None:
        """Keypoints (K, 3): x, y in pixels of the source image, confidence; None when there are none."""
        points = self.table.extra.get("keypoints")
        if points is None:
            return None
        there = ~np.isnan(points[self.row, :, 0])
        return points[self.row][there] if there.any() else None

    @property
    def skeleton(self) -> Skeleton | None:
        """What the keypoints are called and which are joined."""
        return cast("Skeleton | None", self._structure("skeleton"))

    @property
    def mask(self) -> Mask | None:
        """The object's pixels."""
        return cast("Mask | None", self._structure("mask"))

    @property
    def corners(self) -> npt.NDArray[np.float32] | None:
        """The corners (4, 2) of an oriented box in pixels of the source image."""
        return self._vector("corners")

    @property
    def embedding(self) -> npt.NDArray[np.float32] | None:
        """The appearance (D,), of length 1."""
        return self._vector("embedding")

    @property
    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Raw outputs of models kept for this object, by step and output: `tensors-1.output`."""
        kept = {
            name[1:]: column[self.row]
            for name, column in self.table.extra.items()
            if name[0] == "_" and "." in name and column.dtype.kind == "f"
        }
        return {name: values for name, values in kept.items() if not np.isnan(values).all()}

    def _structure(self, name: str) -> object:
        column = self.table.extra.get(name)
        return None if column is None else column[self.row]

    def _vector(self, name: str) -> npt.NDArray[np.float32] | None:
        column = self.table.extra.get(name)
        if column is None or np.isnan(column[self.row]).all():
            return None
        row: npt.NDArray[np.float32] = column[self.row]
        return row

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes at this row, without those that are empty here."""
        values = {name: column[self.row : self.row + 1].tolist()[0] for name, column in self.table.attributes.items()}
        return {name: value for name, value in values.items() if value not in ("", None) and value == value}


_EMPTY = Objects.from_columns(
    frame=np.empty(0),
    xyxy=np.empty((0, 4)),
    confidence=np.empty(0),
    class_id=np.empty(0),
    source=Origin("none"),
)
