"""Where a track heads as the camera sees it, from how its boxes move and grow: no appearance says that as surely.

An object of size S at distance d is f * S / d pixels high, f being the focal length in pixels. When it moves by x
across the line of sight, its box moves by f * x / d pixels; when it moves by x along that line, the logarithm of its
height changes by x / d, which times f is in the same unit. So the larger one of both says which it does more. The focal
length is taken to be that of a lens of 58 degrees, as most cameras' are within a third.
"""

from __future__ import annotations

import math
import re

DIRECTIONS = ("away", "towards", "left", "right")
_FOCAL_LENGTH = 0.9
"""Of the width of the frame."""
_LEAST_MOVED = 0.5
"""How far something has to move, in its own heights."""
_FEWEST = 3
_EDGE_PX = 2.0
_PAUSE_S = 0.1
"""How far apart boxes are of which a line is made."""

_MOVES = (
    r"(?:(?:that|which|who) )?(?:(?:is|are|was|were) )?"
    r"(?:going|goes|went|moving|moves|moved|heading|heads|headed|driving|drives|drove|walking|walks|walked|riding|rides|"
    r"rode|running|runs|ran|cycling|cycles|travell?ing|travell?s|facing|faces|turned|turning|pointing|points|crossing|"
    r"crosses|seen|looking|looks)"
)
_WHO = r"(?:(?:that|which|who) )?(?:(?:is|are|was|were) )?"
_US = r"(?:us|me|the camera|the viewer)"
_PHRASES = {
    "away": (
        rf"{_MOVES} (?:away|off|out)(?: from (?:{_US}|here))?",
        rf"away from (?:{_US}|here)",
        rf"{_WHO}(?:leaving|leaves|departing|departs|receding|disappearing)",
        r"(?:seen )?from (?:behind|the back)",
        rf"with (?:the|its|his|her|their) backs? to {_US}",
        rf"{_WHO}on (?:the|its|his|her|their) way out",
    ),
    "towards": (
        rf"(?:{_MOVES} )?(?:towards?|nearer to|closer to) {_US}",
        rf"{_MOVES} (?:closer|nearer|here|this way|in our direction|in)",
        rf"{_WHO}(?:coming|comes|came)(?: (?:closer|nearer|here|this way|up|in|in our direction|towards? {_US}))?",
        rf"{_WHO}(?:getting )?(?:closer|nearer)",
        rf"{_WHO}(?:approaching|approaches|arriving|arrives|incoming|oncoming)",
        r"(?:seen )?from the front",
        rf"with (?:the|its|his|her|their) fronts? to {_US}",
        rf"{_WHO}on (?:the|its|his|her|their) way (?:here|to {_US})",
    ),
    "left": (
        rf"(?:{_MOVES} )?(?:from (?:the )?right )?to (?:the )?left(?: side)?(?! of\b)",
        rf"(?:{_MOVES} )?(?:towards? the left|leftwards?)(?: side)?",
        rf"{_MOVES} (?:the )?left(?: side)?",
    ),
    "right": (
        rf"(?:{_MOVES} )?(?:from (?:the )?left )?to (?:the )?right(?: side)?(?! of\b)",
        rf"(?:{_MOVES} )?(?:towards? the right|rightwards?)(?: side)?",
        rf"{_MOVES} (?:the )?right(?: side)?",
    ),
}
_PATTERNS = {
    direction: re.compile(rf"(?<![\w-])(?:{'|'.join(phrases)})(?![\w-])") for direction, phrases in _PHRASES.items()
}


class Motion:
    """How the boxes of a track move and grow, as sums of a line through them; its size does not grow with the track."""

    __slots__ = ("_along", "_count", "_first", "_growth", "_heights", "_last", "_logs", "_middles", "_squares", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._first = self._last = 0.0
        self._sum = self._squares = self._middles = self._along = self._logs = self._growth = self._heights = 0.0

    def add(self, xyxy: tuple[float, ...], *, size_wh: tuple[int, int], pts_ns: int) -> None:
        """Take a box in pixels of a frame of that size; one that the frame cuts off says nothing, nor does one that
        comes right after another.
        """
        seconds = pts_ns / 1e9
        if self._count and 0 <= seconds - self._last < _PAUSE_S:
            return
        left, top, right, bottom = xyxy
        width, height = size_wh
        tall = bottom - top
        is_cut = left < _EDGE_PX or top < _EDGE_PX or right > width - _EDGE_PX or bottom > height - _EDGE_PX
        if is_cut or tall <= 0:
            return
        if not self._count:
            self._first = seconds
        self._last = seconds
        time, middle, log = seconds - self._first, (left + right) / 2 / width, math.log(tall / width)
        self._count += 1
        self._sum += time
        self._squares += time * time
        self._middles += middle
        self._along += time * middle
        self._logs += log
        self._growth += time * log
        self._heights += tall / width

    def direction(self) -> str | None:
        """Return one of `DIRECTIONS`; None for what stands, and for what was seen whole too seldom."""
        count = self._count
        spread = count * self._squares - self._sum * self._sum
        if count < _FEWEST or spread <= 0:
            return None
        lasted = self._last - self._first
        across = (count * self._along - self._sum * self._middles) / spread * lasted
        nearer = (count * self._growth - self._sum * self._logs) / spread * lasted * _FOCAL_LENGTH
        if max(abs(across), abs(nearer)) < _LEAST_MOVED * self._heights / count:
            return None
        if abs(nearer) > abs(across):
            return "towards" if nearer > 0 else "away"
        return "right" if across > 0 else "left"


def read_direction(text: str) -> tuple[str | None, str]:
    """Return the direction that a text in lower case asks for, and the text without it; None and the whole text where
    it names none, or several.

    >>> read_direction("red car leaving")
    ('away', 'red car')
    >>> read_direction("person to the left of the door")
    (None, 'person to the left of the door')
    """
    named = [direction for direction, pattern in _PATTERNS.items() if pattern.search(text)]
    if len(named) != 1:
        return None, text
    return named[0], " ".join(_PATTERNS[named[0]].sub(" ", text).split())
