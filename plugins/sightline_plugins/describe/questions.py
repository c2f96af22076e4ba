"""Questions that wait: alarms and the most severe first, and a bound on how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from sightline.graph.rule_options import Verify
from sightline.media import Surface
from sightline.media.events import Scalar
from sightline_plugins.encode.images import encode_jpeg, jpeg_size

SEVERITIES: Mapping[str, int] = {"info": 1, "low": 2, "medium": 3, "high": 4, "critical": 5}
"""How urgent a question about an event of that severity is; 2 where it has none."""
_UNKNOWN_SEVERITY = 2


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image that is sent, and what it shows, for the model: a JPEG, or a small copy of pixels (`shrunk`), which is
    encoded when it is sent.
    """

    caption: str
    image: Surface | bytes
    quality: int = 80

    def jpeg(self) -> bytes:
        """Return it as JPEG."""
        if isinstance(self.image, bytes):
            return self.image
        return encode_jpeg(self.image, largest_wh=self.image.size_wh, quality=self.quality)


def shrunk(surface: Surface, *, largest_side: int) -> Surface:
    """Return a copy in host memory, made smaller so that no side is longer: what a question keeps instead of the frame.

    Planes are reduced each for itself by the mean of the pixels, in the format that they have.
    """
    from sightline_plugins.opencv import cv2

    surface = surface.to_host()
    size_wh = jpeg_size(surface.size_wh, largest_wh=(largest_side, largest_side))
    planes = []
    for plane, shape in zip(surface.planes, surface.format.plane_shapes(size_wh), strict=True):
        small = cv2.resize(plane, (shape[1], shape[0]), interpolation=cv2.INTER_AREA)
        planes.append(np.array(small, np.uint8).reshape(shape))
    return Surface(surface.format, size_wh, tuple(planes), surface.matrix, surface.range)


@dataclass(slots=True, eq=False)
class Question:
    """One question: `facts` are what is known, as JSON values; `about` and `head` stand in the event of the answer.

    `asked_ns` and `expires_ns` are of the monotonic clock, `time_ns` of the time of day. `verify` is how an alarm is
    verified, if it is about one. `attempts` counts the requests so far.
    """

    id: str
    stream: str
    about: str
    severity: int
    prompt: str
    facts: Mapping[str, object]
    head: Mapping[str, Scalar]
    images: Sequence[CaptionedImage]
    asked_ns: int
    time_ns: int
    expires_ns: int
    verify: Verify | None = None
    attempts: int = 0
    order: tuple[bool, int, int] = field(default=(False, 0, 0))
    """Alarm or not, severity and number: what is asked first has the highest."""


def severity_of(name: object) -> int:
    """Return how urgent the severity of that name is."""
    return SEVERITIES.get(str(name), _UNKNOWN_SEVERITY)


class QuestionQueue:
    """At most `size` questions. Alarms are taken before others, the most severe first, and the newest of these: the
    oldest first, alarms that come faster than answers would all be asked about when their time is almost over.

    Methods may be called from any thread, and never wait.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._waiting: list[Question] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, question: Question) -> Question | None:
        """Add a question; return the one that has to go for it, which may be the same."""
        with self._lock:
            if not question.attempts:
                self._number += 1
                question.order = question.verify is not None, question.severity, self._number
            self._waiting.append(question)
            if len(self._waiting) <= self._size:
                return None
            last = min(self._waiting, key=lambda one: one.order)
            self._waiting.remove(last)
            return last

    def take(self) -> Question | None:
        """Take the question that comes first; None when there is none."""
        with self._lock:
            if not self._waiting:
                return None
            first = max(self._waiting, key=lambda one: one.order)
            self._waiting.remove(first)
            return first

    def take_expired(self, at_ns: int) -> list[Question]:
        """Take those that will have expired at a time."""
        with self._lock:
            gone = [one for one in self._waiting if one.expires_ns < at_ns]
            self._waiting = [one for one in self._waiting if one.expires_ns >= at_ns]
            return gone

    def take_all(self) -> list[Question]:
        """Take all that wait."""
        with self._lock:
            gone, self._waiting = self._waiting, []
            return gone


class Admission:
    """Bounds how many questions get their images encoded: a storm of events costs no more than the requests it can get.

    Of each severity it allows `burst` at once, and then one each `interval_ns`, so that many events of little weight
    keep none that is more severe from being asked about.
    """

    def __init__(self, *, burst: int, interval_ns: int) -> None:
        self._burst_ns = burst * interval_ns
        self._interval_ns = interval_ns
        self._credits: dict[tuple[bool, int], tuple[int, int]] = {}
        """By alarm or not, and severity: what it may spend, and since when that was so."""

    def allows(self, severity: int, now_ns: int, *, is_alarm: bool = False) -> bool:
        """Whether one more question may be asked now; if so it counts. Alarms and other questions are counted apart."""
        kind = is_alarm, severity
        credit_ns, since_ns = self._credits.get(kind, (self._burst_ns, now_ns))
        credit_ns = min(self._burst_ns, credit_ns + max(now_ns - since_ns, 0))
        is_allowed = credit_ns >= self._interval_ns
        self._credits[kind] = (credit_ns - self._interval_ns if is_allowed else credit_ns), now_ns
        return is_allowed
