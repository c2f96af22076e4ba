"""Global identities: which tracks of several streams are the same object, and how certain that is.

Every track has an appearance (mean embedding), a state on the floor (position and velocity), or both. A track that was
seen long enough is compared with every identity that may be it. The log-likelihood ratios of appearance and floor
against "a new object" add up, and a one-to-one assignment of the new tracks of a frame decides. Later, at growing
intervals, every track is compared again, and moves to another identity when the evidence for it is overwhelming.

Observations come in the order of time, one frame at a time. Times are nanoseconds, positions metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline_plugins.track.appearance import unit
from sightline_plugins.track.association import assign
from sightline_plugins.track.multi_camera.appearance import Appearance
from sightline_plugins.track.multi_camera.columns import ColumnTable, Rows
from sightline_plugins.track.multi_camera.motion import FloorMotion

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NO_IDENTITY = -1
_NEVER_NS = -(1 << 62)
_SECOND_NS = 1_000_000_000
_GONE_NS = 3 * _SECOND_NS
"""A track not seen for this long has ended; the tracker may still bring it back, with its identity."""
_LEAST_FRAMES = 2
_NEW_TO_KNOWN = 0.3
"""How probable a new object is, relative to one that was seen before, without evidence."""
_FIRST_NEW = 2.0
"""The same times the number of tracks, for the first tracks of a run."""
_OUTLIER = np.log(0.005)
"""Least log-likelihood ratio of a floor position that the object could have reached."""
_REVISION = np.log(30.0)
"""How much more probable another identity has to be before a track moves to it."""
_FIRST_REVIEW_NS = _SECOND_NS
_LAST_REVIEW_NS = 16 * _SECOND_NS
_PLAN_ERROR_M = 0.3
"""Deviation between cameras that see the same feet; unlike noise it does not average out."""
_MOST_WEIGHT = 20.0
_MOST_IDENTITIES = 10_000
"""Older ones are forgotten, also where the times of streams begin anew again and again."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The tracked objects of one frame, as columns over N objects.

    slot       number of the stream among the open ones
    track_id   int64 (N,)
    label      int64 (N,)          number of the class; different classes are different objects
    embedding  float (N, D)|None   NaN where an object has none
    floor      float (N, 2)|None   metres; NaN where the feet are not on the floor plan
    noise      float (N, 2, 2)|None covariance of `floor`
    """

    slot: int
    track_id: Integers
    label: Integers
    embedding: npt.NDArray[np.floating] | None = None
    floor: Floats | None = None
    noise: Floats | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A track got an identity (`new`, `matched`), or another one than before (`revised`)."""

    slot: int
    track_id: int
    global_id: int
    probability: float
    change: Literal["new", "matched", "revised"]
    previous: int = NO_IDENTITY


@dataclass(slots=True)
class _Known:
    """What is written for a track."""

    global_id: int
    probability: float
    seen_ns: int


class Identities:
    """The identities of all streams. One thread at a time calls it.

    A new track is decided `confirm_ns` after it was first seen. A match needs `min_probability`. An identity that no
    stream has shown for `max_gap_ns` is forgotten. Without `motion`, floor positions are ignored.
    """

    def __init__(
        self, *, motion: FloorMotion | None, confirm_ns: int, max_gap_ns: int, min_probability: float, first_id: int = 1
    ) -> None:
        self._motion = motion
        self._confirm_ns = confirm_ns
        self._max_gap_ns = max_gap_ns
        self._least_odds = float(np.log(min_probability / (1 - min_probability)))
        self.next_id = first_id
        self._appearance = Appearance()
        self._known: dict[tuple[int, int], _Known] = {}
        self._row: dict[tuple[int, int], int] = {}
        self._tidied_ns = _NEVER_NS
        self._decided = 0
        floor = {"state": np.zeros(4), "covariance": np.zeros((4, 4)), "floor_ns": np.array(_NEVER_NS)}
        met = {"met_state": np.zeros(4), "met_covariance": np.zeros((4, 4)), "met_ns": np.array(_NEVER_NS)}
        common = {"label": np.array(0), "vector": np.zeros(1), **floor}
        numbers = {name: np.array(0) for name in ("slot", "track_id", "first_ns", "seen_ns", "frames", "review_ns")}
        scores = {"vectors": np.array(0.0), "floor_ratio": np.array(0.0), "interval_ns": np.array(_FIRST_REVIEW_NS)}
        self._tracks = ColumnTable({"identity": np.array(NO_IDENTITY), **numbers, **scores, **common, **met})
        self._identities = ColumnTable(
            {"id": np.array(0), "seen_ns": np.array(_NEVER_NS), "slot_ns": np.full(1, _NEVER_NS), **common}
        )

    def __len__(self) -> int:
        return len(self._identities)

    @property
    def tracks(self) -> int:
        """Number of tracks that are kept."""
        return len(self._tracks)

    def lookup(self, slot: int, track_id: Sequence[int]) -> list[tuple[int, float] | None]:
        """Return global id and probability of each of these tracks of a stream; None while undecided."""
        known = (self._known.get((slot, own)) for own in track_id)
        return [None if own is None else (own.global_id, own.probability) for own in known]

    def update(self, now_ns: int, seen: Observation) -> list[Decision]:
        """Take the objects of one frame, and return what was decided on them."""
        if abs(now_ns - self._tidied_ns) >= _SECOND_NS:
            self._tidy(now_ns)
        if not len(seen.track_id):
            return []
        rows = self._observe(now_ns, seen)
        tracks = self._tracks
        decisions: list[Decision] = []
        undecided = tracks["identity"][rows] == NO_IDENTITY
        is_due = undecided & (now_ns - tracks["first_ns"][rows] >= self._confirm_ns)
        is_due &= tracks["frames"][rows] >= _LEAST_FRAMES
        if is_due.any():
            decisions += self._decide(rows[is_due], now_ns)
        is_due = ~undecided & (tracks["review_ns"][rows] <= now_ns)
        if is_due.any():
            decisions += self._review(rows[is_due], now_ns)
        return decisions

    def end_stream(self, slot: int) -> None:
        """End all tracks of a stream: its number may be given to another one."""
        self._fold(self._tracks["slot"] == slot)
        if slot < self._identities["slot_ns"].shape[1]:
            self._identities["slot_ns"][:, slot] = _NEVER_NS
        self._known = {key: known for key, known in self._known.items() if key[0] != slot}

    # ---- tracks ----

    def _observe(self, now_ns: int, seen: Observation) -> Rows:
        """Update the tracks that a frame shows; return their rows."""
        keys = [(seen.slot, own) for own in seen.track_id.tolist()]
        new = [number for number, key in enumerate(keys) if key not in self._row]
        tracks = self._tracks
        if new:
            added = tracks.add(len(new))
            for row, number in zip(added.tolist(), new, strict=True):
                self._row[keys[number]] = row
                known = self._known.get(keys[number])
                tracks["identity"][row] = NO_IDENTITY if known is None else known.global_id
            tracks["slot"][added] = seen.slot
            tracks["track_id"][added] = seen.track_id[new]
            tracks["first_ns"][added] = now_ns
            tracks["review_ns"][added] = now_ns + _FIRST_REVIEW_NS
        rows = np.array([self._row[key] for key in keys], np.intp)
        tracks["label"][rows] = seen.label
        tracks["frames"][rows] += 1
        tracks["seen_ns"][rows] = np.maximum(tracks["seen_ns"][rows], now_ns)
        for key in keys:
            if (known := self._known.get(key)) is not None:
                known.seen_ns = now_ns
        if seen.embedding is not None:
            self._observe_appearance(rows, seen.embedding)
        if self._motion is not None and seen.floor is not None and seen.noise is not None:
            there = ~np.isnan(seen.floor[:, 0])
            self._observe_floor(self._motion, rows[there], seen.floor[there], seen.noise[there], now_ns)
        return rows

    def _observe_appearance(self, rows: Rows, embedding: npt.NDArray[np.floating]) -> None:
        there = ~np.isnan(embedding).any(axis=1)
        width = embedding.shape[1]
        for table in (self._tracks, self._identities):
            table.widen("vector", width)
        self._tracks["vector"][rows[there], :width] += embedding[there]
        self._tracks["vectors"][rows[there]] += 1

    def _observe_floor(self, motion: FloorMotion, rows: Rows, points: Floats, noise: Floats, now_ns: int) -> None:
        tracks = self._tracks
        is_new = tracks["floor_ns"][rows] == _NEVER_NS
        old = rows[~is_new]
        tracks["state"][rows[is_new]], tracks["covariance"][rows[is_new]] = motion.begin(points[is_new], noise[is_new])
        seconds = (now_ns - tracks["floor_ns"][old]) / _SECOND_NS
        state, covariance = motion.predict(tracks["state"][old], tracks["covariance"][old], np.maximum(seconds, 0))
        tracks["state"][old], tracks["covariance"][old] = motion.update(
            state, covariance, points[~is_new], noise[~is_new]
        )
        tracks["floor_ns"][rows] = np.maximum(tracks["floor_ns"][rows], now_ns)

    def _fold(self, ended: npt.NDArray[np.bool_]) -> None:
        """Remove tracks; what was known of them goes to their identities."""
        tracks, identities = self._tracks, self._identities
        if not ended.any():
            return
        rows = np.flatnonzero(ended & (tracks["identity"] != NO_IDENTITY))
        owners = self._identity_rows(rows)
        rows, owners = rows[owners >= 0], owners[owners >= 0]
        np.add.at(identities["vector"], owners, self._weighted(rows))
        np.maximum.at(identities["seen_ns"], owners, tracks["seen_ns"][rows])
        for row, owner in zip(rows.tolist(), owners.tolist(), strict=True):
            slot = int(tracks["slot"][row])
            identities.widen("slot_ns", slot + 1)
            seen = identities["slot_ns"]
            seen[owner, slot] = max(seen[owner, slot], tracks["seen_ns"][row])
            if tracks["floor_ns"][row] > identities["floor_ns"][owner]:
                for name in ("state", "covariance", "floor_ns"):
                    identities[name][owner] = tracks[name][row]
        tracks.keep(~ended)
        pairs = zip(tracks["slot"].tolist(), tracks["track_id"].tolist(), strict=True)
        self._row = {pair: row for row, pair in enumerate(pairs)}

    def _tidy(self, now_ns: int) -> None:
        """Fold tracks that ended; forget identities and tracks that were not seen for long."""
        self._tidied_ns = now_ns
        tracks, identities = self._tracks, self._identities
        self._fold(tracks["seen_ns"] < now_ns - _GONE_NS)
        is_shown = np.isin(identities["id"], tracks["identity"])
        is_recent = identities["seen_ns"] >= now_ns - self._max_gap_ns
        kept = is_shown | (is_recent & (identities["id"] >= self.next_id - _MOST_IDENTITIES))
        if not kept.all():
            identities.keep(kept)
        oldest_ns = now_ns - self._max_gap_ns
        if any(known.seen_ns < oldest_ns for known in self._known.values()):
            known = self._known.items()
            self._known = {key: one for key, one in known if one.seen_ns >= oldest_ns or key in self._row}

    def _identity_rows(self, rows: Rows) -> Rows:
        """Return the identity's row of each of these tracks; -1 for none."""
        ids, own = self._identities["id"], self._tracks["identity"][rows]
        place = np.minimum(np.searchsorted(ids, own), max(len(ids) - 1, 0))
        return np.where(ids[place] == own, place, -1) if len(ids) else np.full(len(rows), -1)

    def _weighted(self, rows: Rows) -> Floats:
        """Return the mean direction of each track's embeddings, weighted by their number."""
        weight = np.minimum(self._tracks["vectors"][rows], _MOST_WEIGHT)
        return np.nan_to_num(unit(self._tracks["vector"][rows])) * weight[:, None]

    # ---- evidence ----

    def _evidence(self, rows: Rows, now_ns: int) -> tuple[Floats, Floats]:
        """Return log-likelihood ratios (K, I) of tracks and identities: all together, and of the floor alone.

        They are minus infinity where the track cannot be that object.
        """
        tracks, identities = self._tracks, self._identities
        shown = np.flatnonzero(tracks["identity"] != NO_IDENTITY)
        owners = self._identity_rows(shown)
        shown, owners = shown[owners >= 0], owners[owners >= 0]
        is_other = shown != rows[:, None]
        floor = np.zeros((len(rows), len(identities)))
        if self._motion is not None:
            floor = self._floor_evidence(self._motion, rows, shown, owners, now_ns)
        ratio = floor + self._appearance.log_ratio(self._similarity(rows, shown, owners))

        slots, first = tracks["slot"][rows], tracks["first_ns"][rows]
        beside = is_other & (tracks["slot"][shown] == slots[:, None]) & (tracks["seen_ns"][shown] >= first[:, None])
        track, other = np.nonzero(beside)
        ratio[track, owners[other]] = -np.inf
        there = np.minimum(slots, identities["slot_ns"].shape[1] - 1)
        overlapping = (first[:, None] <= identities["slot_ns"][:, there].T) & (there == slots)[:, None]
        label = identities["label"].copy()
        label[owners] = tracks["label"][shown]
        ratio[overlapping | (label != tracks["label"][rows][:, None])] = -np.inf
        return ratio, floor

    def _similarity(self, rows: Rows, shown: Rows, owners: Rows) -> Floats:
        """Return the similarity (K, I) of tracks and identities without the track itself; NaN without embeddings."""
        tracks, identities = self._tracks, self._identities
        weighted = self._weighted(shown)
        total = identities["vector"].astype(np.float64)
        np.add.at(total, owners, weighted)
        own = unit(tracks["vector"][rows])
        similarity: Floats = own @ unit(total).T
        for number, row in enumerate(rows.tolist()):
            for place in np.flatnonzero(shown == row).tolist():
                rest = total[owners[place]] - weighted[place]
                is_alone = np.linalg.norm(rest) < 1e-6
                similarity[number, owners[place]] = np.nan if is_alone else float(own[number] @ unit(rest[None])[0])
        return similarity

    def _floor_evidence(self, motion: FloorMotion, rows: Rows, shown: Rows, owners: Rows, now_ns: int) -> Floats:
        """Return log-likelihood ratios (K, I) of positions; 0 where nothing is known.

        A track is compared with every track of an identity that is shown now, of which the worst counts. An identity
        that no stream shows is compared where it was seen last, with the track when it was decided. The track's own
        identity, if no other track shows it, keeps the ratio of its last decision.
        """
        tracks, identities = self._tracks, self._identities
        ratio = np.full((len(rows), len(identities)), np.inf)
        has_floor = tracks["floor_ns"] > _NEVER_NS
        visible = np.flatnonzero(has_floor[shown])
        track, place = np.nonzero(has_floor[rows][:, None] & (shown[visible] != rows[:, None]))
        own, other = rows[track], shown[visible][place]
        now = np.full(len(own), now_ns)
        state, covariance = motion.predict(*self._states(own), (now_ns - tracks["floor_ns"][own]) / _SECOND_NS)
        found = _floor_ratio(motion, (state, covariance, now), (*self._states(other), tracks["floor_ns"][other]))
        np.minimum.at(ratio, (track, owners[visible][place]), found)

        is_away = ratio == np.inf
        ratio[is_away] = 0
        is_own = tracks["identity"][rows][:, None] == identities["id"]
        ratio = np.where(is_away & is_own, tracks["floor_ratio"][rows][:, None], ratio)
        has_met = tracks["met_ns"][rows] > _NEVER_NS
        track, place = np.nonzero(is_away & ~is_own & has_met[:, None] & (identities["floor_ns"] > _NEVER_NS))
        own = rows[track]
        states = tracks["met_state"][own], tracks["met_covariance"][own], tracks["met_ns"][own]
        others = identities["state"][place], identities["covariance"][place], identities["floor_ns"][place]
        ratio[track, place] = _floor_ratio(motion, states, others)
        return ratio

    def _states(self, rows: Rows) -> tuple[Floats, Floats]:
        return self._tracks["state"][rows], self._tracks["covariance"][rows]

    # ---- decisions ----

    def _decide(self, rows: Rows, now_ns: int) -> list[Decision]:
        """Give identities to tracks of one frame that have none."""
        tracks = self._tracks
        self._measure_different(rows)
        for name, met in (("state", "met_state"), ("covariance", "met_covariance"), ("floor_ns", "met_ns")):
            tracks[met][rows] = tracks[name][rows]
        ratio, floor = self._evidence(rows, now_ns)
        odds = ratio + self._prior(ratio)
        found, places = assign(np.where(np.isfinite(odds), odds - self._least_odds, 0).astype(np.float32))
        chosen = np.full(len(rows), -1)
        chosen[found] = places
        weight = np.exp(odds)
        taken = np.isin(np.arange(ratio.shape[1]), places) & (np.arange(ratio.shape[1]) != chosen[:, None])
        weight[taken] = 0
        decisions = []
        for number, (row, place) in enumerate(zip(rows.tolist(), chosen.tolist(), strict=True)):
            own = weight[number, place] if place >= 0 else 1.0
            probability = float(own / (1 + weight[number].sum()))
            global_id = int(self._identities["id"][place]) if place >= 0 else self._add_identity(row)
            tracks["floor_ratio"][row] = floor[number, place] if place >= 0 else 0
            decisions.append(self._set(row, global_id, probability, now_ns, "matched" if place >= 0 else "new"))
        self._decided += len(rows)
        return decisions

    def _review(self, rows: Rows, now_ns: int) -> list[Decision]:
        """Compare tracks again, and move those that are certainly another object."""
        tracks = self._tracks
        tracks["interval_ns"][rows] = np.minimum(2 * tracks["interval_ns"][rows], _LAST_REVIEW_NS)
        tracks["review_ns"][rows] = now_ns + tracks["interval_ns"][rows]
        ratio, floor = self._evidence(rows, now_ns)
        odds = ratio + self._prior(ratio)
        owners = self._identity_rows(rows)
        is_alone = self._is_alone(rows, owners)
        decisions: list[Decision] = []
        moved_to: list[int] = []
        for number, (row, owner) in enumerate(zip(rows.tolist(), owners.tolist(), strict=True)):
            own, contradiction, others = 0.0, 0.0, odds[number]
            others[moved_to] = -np.inf
            if owner >= 0:
                own, contradiction = (0.0, 0.0) if is_alone[number] else (odds[number, owner], -ratio[number, owner])
                others[owner] = -np.inf
            best = int(others.argmax()) if len(others) else -1
            value = others[best] if len(others) else -np.inf
            total = np.exp(others).sum() + np.exp(own) + (0 if is_alone[number] else 1)
            if value > max(own + _REVISION, 0):
                moved_to.append(best)
                tracks["floor_ratio"][row] = floor[number, best]
                global_id = int(self._identities["id"][best])
                decisions.append(self._set(row, global_id, float(np.exp(value) / total), now_ns, "revised"))
            elif contradiction > _REVISION:
                tracks["floor_ratio"][row] = 0
                decisions.append(self._set(row, self._add_identity(row), float(1 / total), now_ns, "revised"))
            else:
                self._known[self._key(row)].probability = float(np.exp(own) / total)
                if not is_alone[number]:
                    tracks["floor_ratio"][row] = floor[number, owner]
        return decisions

    def _is_alone(self, rows: Rows, owners: Rows) -> npt.NDArray[np.bool_]:
        """Return for each of these tracks whether no other track, also none that ended, belongs to its identity."""
        own = self._tracks["identity"]
        members = (own[rows][:, None] == own).sum(axis=1)
        seen_ns = self._identities["seen_ns"]
        return (owners < 0) | ((members == 1) & (seen_ns[owners] == _NEVER_NS) if len(seen_ns) else True)

    def _measure_different(self, rows: Rows) -> None:
        """Measure the similarity of new tracks to the other objects of the same frame, and to known objects but the
        most similar.
        """
        tracks = self._tracks
        row = int(rows[0])
        beside = (tracks["slot"] == tracks["slot"][row]) & (tracks["seen_ns"] == tracks["seen_ns"][row])
        own = unit(tracks["vector"][rows])
        shown = own @ unit(tracks["vector"][beside]).T
        shown[rows[:, None] == np.flatnonzero(beside)] = np.nan
        known = own @ unit(self._identities["vector"]).T
        if known.shape[1]:
            best = np.nan_to_num(known, nan=-1).argmax(axis=1)
            known[np.arange(len(rows)), best] = np.nan
        similarity = np.concatenate([shown.ravel(), known.ravel()])
        self._appearance.add_different(similarity[~np.isnan(similarity)])

    def _add_identity(self, row: int) -> int:
        (added,) = self._identities.add(1)
        self._identities["id"][added] = global_id = self.next_id
        self._identities["label"][added] = self._tracks["label"][row]
        self.next_id += 1
        return global_id

    def _set(
        self, row: int, global_id: int, probability: float, now_ns: int, change: Literal["new", "matched", "revised"]
    ) -> Decision:
        tracks = self._tracks
        previous = int(tracks["identity"][row])
        slot, track_id = self._key(row)
        tracks["identity"][row] = global_id
        self._known[slot, track_id] = _Known(global_id, probability, now_ns)
        return Decision(slot, track_id, global_id, probability, change, previous)

    def _prior(self, ratio: Floats) -> Floats:
        """Return the log odds (K, 1) that a track is a certain one of the objects that it can be, without evidence."""
        possible = np.isfinite(ratio).sum(axis=1, keepdims=True)
        new_to_known = max(_NEW_TO_KNOWN, _FIRST_NEW / max(self._decided, 1))
        prior: Floats = -np.log(np.maximum(possible, 1) * new_to_known)
        return prior

    def _key(self, row: int) -> tuple[int, int]:
        return int(self._tracks["slot"][row]), int(self._tracks["track_id"][row])


_State = tuple[Floats, Floats, Integers]


def _floor_ratio(motion: FloorMotion, states: _State, others: _State) -> Floats:
    """Return log-likelihood ratios (N,) of states, each with its time, and of states of known objects with theirs.

    It is minus infinity where an object would have moved faster than it can.
    """
    state, covariance, time_ns = states
    other, other_covariance, other_ns = others
    if not len(state):
        return np.zeros(0)
    seconds = (time_ns - other_ns) / _SECOND_NS
    predicted, spread = motion.predict(other, other_covariance, seconds)
    covariance = covariance.copy()
    covariance[:, [0, 1], [0, 1]] += 2 * _PLAN_ERROR_M**2
    ratio = np.logaddexp(motion.log_ratio(state, covariance, predicted, spread), _OUTLIER)
    noise = np.sqrt(covariance[:, [0, 1], [0, 1]].sum(axis=1) + other_covariance[:, [0, 1], [0, 1]].sum(axis=1))
    distance = np.linalg.norm(state[:, :2] - other[:, :2], axis=1)
    return np.where(distance > motion.max_speed * np.abs(seconds) + 4 * noise, -np.inf, ratio)
