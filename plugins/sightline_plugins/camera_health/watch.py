"""The watch over one camera: it learns a view, compares images with it, and decides what lasts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sightline.graph.state import Saved
from sightline.graph.tracker import Luma
from sightline.media.frame import NANOSECONDS
from sightline_plugins.camera_health.camera_health import CHECKS, CameraHealth, Check
from sightline_plugins.camera_health.evidence import Evidence, StillImage
from sightline_plugins.camera_health.view import Comparison, Sample, View

_FEWEST_LEARNED, _MOST_LEARNED = 8, 24
"""Images that a view is learned from."""
_UNLIKE: tuple[Check, ...] = ("turned", "covered")
"""Where a camera that was turned sees little detail, single images look like a cover: what was found first stays."""
_LONGEST_STEP_NS = 10 * NANOSECONDS
"""What a view follows of a gap between two images at most."""
_LAYOUT = 0.55
"""From this correlation of bright and dark on, an image that matches nowhere and lacks detail is far out of focus, and
is not one of a cover."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that began or ended: for how long it has been so, and why it ended where that is not by itself."""

    check: Check
    began: bool
    lasted_ns: int
    reason: str = ""


@dataclass(slots=True)
class Measures:
    """What was measured of the latest image that was looked at; NaN where it is not known.

    `brightness` and `contrast` (the standard deviation) are in levels, the others shares; `change` is that of the
    pixels that differ from the image before.
    """

    brightness: float = math.nan
    contrast: float = math.nan
    match: float = math.nan
    sharpness: float = math.nan
    change: float = math.nan
    shift_x: float = math.nan
    shift_y: float = math.nan

    def known(self) -> dict[str, float]:
        """Return those that are known, rounded."""
        return {
            name: round(value, 1 if name in ("brightness", "contrast") else 3)
            for name, value in asdict(self).items()
            if not math.isnan(value)
        }


class CameraWatch:
    """One camera. Times are by the clock of its stream, in nanoseconds."""

    def __init__(self, options: CameraHealth) -> None:
        self.options = options
        self.measures = Measures()
        self._evidence: dict[Check, Evidence] = {check: Evidence() for check in CHECKS if check in options.checks}
        self._still = StillImage()
        self._view: View | None = None
        self._learned: list[Luma] = []
        self._learned_ns = 0
        """When the newest of `_learned` was taken."""
        self._learns_since_ns = 0
        self._due_ns: int | None = None
        """When the newest image was taken that is to be looked at."""
        self._last_ns: int | None = None
        self._lasted_ns: dict[Check, int] = {}
        """For how long what is active had been so when it was restored, until the first image."""

    def is_due(self, now_ns: int) -> bool:
        """Whether to look at the image of that time. Asked once for each image, in their order."""
        if self._due_ns is not None and 0 <= now_ns - self._due_ns < self.options.interval:
            return False
        self._due_ns = now_ns
        return True

    def update(self, image: Luma, *, now_ns: int) -> list[Change]:
        """Look at the next fine image (H, W), which is kept, and return what begins and ends with it."""
        step_ns = 0 if self._last_ns is None else max(now_ns - self._last_ns, 0)
        if self._last_ns is None or now_ns < self._last_ns:
            self._begin(now_ns)
        self._last_ns = now_ns
        sample = Sample.of(image)
        self.measures = Measures(sample.brightness, sample.contrast)
        if self._view is not None and not self._view.fits(sample):
            self._view, self._learned = None, []
        found = self._judged(sample, image, now_ns=now_ns)
        if "frozen" in self._evidence:
            frozen = self._still.update(image, now_ns=now_ns, step_ns=step_ns, after_ns=self.options.frozen_after)
            self.measures.change = self._still.change
            if frozen or (self._evidence["frozen"].is_active and self._still.still_ns):
                found.add("frozen")
        changes = list(self._changes(found, now_ns=now_ns, step_ns=step_ns))
        if self._view is not None and not sample.is_blank:
            changes += self._relearned(now_ns=now_ns)
        suspected = any(evidence.is_suspected for check, evidence in self._evidence.items() if check != "frozen")
        if self._view is not None and not suspected:
            seconds = min(step_ns, _LONGEST_STEP_NS) / NANOSECONDS
            self._view.follow(sample, seconds=seconds, sharpness=self.measures.sharpness)
        return changes

    def lasts_ns(self) -> dict[Check, int]:
        """Return what is so now, and for how long."""
        now_ns = self._last_ns or 0
        return {check: now_ns - one.since_ns for check, one in self._evidence.items() if one.is_active}

    def save(self) -> Saved:
        """Return what it learned, and what is so."""
        return {
            "view": None if self._view is None else self._view.save(),
            "lasted_ns": self.lasts_ns(),
            "usual_still_ns": self._still.usual_ns,
        }

    def restore(self, saved: Saved, *, gap_ns: int) -> None:
        """Go on after `gap_ns` without images. Raises KeyError, TypeError or ValueError."""
        view = None if saved["view"] is None else View.restored(saved["view"])
        before = dict(saved["lasted_ns"])
        lasted_ns = {check: int(before[check]) + gap_ns for check in CHECKS if check in before}
        self._still.usual_ns = int(saved["usual_still_ns"])
        self._view, self._lasted_ns = view, lasted_ns

    def _begin(self, now_ns: int) -> None:
        """Begin with the first image, or with one that is earlier than the last: times up to now mean nothing."""
        lasted_ns = {**self.lasts_ns(), **self._lasted_ns}
        for check, evidence in self._evidence.items():
            evidence.start(now_ns, lasted_ns=lasted_ns.get(check))
        self._still.restart()
        self._lasted_ns, self._learned = {}, []

    def _judged(self, sample: Sample, image: Luma, *, now_ns: int) -> set[Check]:
        """Return what is wrong with an image, without regard to how long."""
        if self._view is None:
            self._learn(image, now_ns=now_ns)
        if self._view is None or not self._view.is_comparable:
            return self._looked_for("covered" if sample.is_blank else None)
        found = self._view.compare(sample)
        self.measures.match, self.measures.sharpness = found.match, found.sharpness
        if found.shift_xy is not None:
            self.measures.shift_x, self.measures.shift_y = found.shift_xy
        wrong = _what_is_wrong(found, match=self.options.match, sharpness=self.options.sharpness)
        if wrong in _UNLIKE and not sample.is_blank:
            active = [check for check in _UNLIKE if check in self._evidence and self._evidence[check].is_active]
            wrong = active[0] if active else wrong
        return self._looked_for(wrong)

    def _looked_for(self, check: Check | None) -> set[Check]:
        return {check} if check is not None and check in self._evidence else set()

    def _learn(self, image: Luma, *, now_ns: int) -> None:
        if self._learned and self._learned[0].shape != image.shape:
            self._learned = []
        if not self._learned:
            self._learns_since_ns = now_ns
        elif now_ns - self._learned_ns < self.options.learn // _MOST_LEARNED:
            return
        self._learned.append(image)
        self._learned_ns = now_ns
        if len(self._learned) < _FEWEST_LEARNED or now_ns - self._learns_since_ns < self.options.learn:
            return
        view = View.learned(self._learned)
        self._learned = []
        if view.is_comparable:
            self._view = view

    def _changes(self, found: set[Check], *, now_ns: int, step_ns: int) -> Iterator[Change]:
        options = self.options
        for check, evidence in self._evidence.items():
            after_ns = 0 if check == "frozen" else options.after
            if evidence.update(
                check in found or self._speaks_against(check, found),
                now_ns=now_ns,
                step_ns=step_ns,
                after_ns=after_ns,
                clear_after_ns=options.clear_after,
            ):
                if evidence.is_active and check == "frozen":
                    evidence.since_ns = self._still.since_ns
                yield Change(check, evidence.is_active, now_ns - evidence.since_ns)

    def _speaks_against(self, check: Check, found: set[Check]) -> bool | None:
        """Return what an image says of a check that it does not show: False, or None where it shows another fault of
        the view. What a camera sees after it was turned may look like a cover in one image and not in the next.
        """
        others = [other for other in found if "frozen" not in (check, other)]
        is_open = self._evidence[check].is_active or not any(self._evidence[other].is_active for other in others)
        return None if others and is_open else False

    def _relearned(self, *, now_ns: int) -> list[Change]:
        """Return what ends because it has lasted for so long that the view is learned anew."""
        lasting = {check: lasted_ns for check, lasted_ns in self.lasts_ns().items() if check != "frozen"}
        if max(lasting.values(), default=0) < self.options.relearn:
            return []
        self._view, self._learned = None, []
        for check, evidence in self._evidence.items():
            if check != "frozen":
                evidence.start(now_ns, lasted_ns=None)
        return [Change(check, False, lasted_ns, "relearned") for check, lasted_ns in lasting.items()]


def _what_is_wrong(found: Comparison, *, match: float, sharpness: float) -> Check | None:
    """Return what an image shows that differs so."""
    if found.shift_xy is not None:
        return "turned"
    if found.match >= match:
        return "defocused" if found.sharpness < sharpness else None
    if found.layout >= _LAYOUT and found.detail < sharpness:
        return "defocused"
    return "turned" if found.covered < 1 - found.match - found.covered else "covered"
