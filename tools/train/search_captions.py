"""What people say of a crop: captions of some of what is true of it, and which captions are true of which crops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.train.search_samples import Described

VEHICLES = ("car", "van", "truck", "bus")
_KINDS = {"vehicle": VEHICLES, "large vehicle": ("truck", "bus")}
NOUNS = {
    "person": (
        "person",
        "pedestrian",
        "somebody",
        "someone",
        "human",
        "walker",
        "people",
        "man",
        "woman",
        "figure",
        "adult",
        "individual",
        "passer-by",
        "person on foot",
        "human being",
    ),
    "bicycle": (
        "bicycle",
        "bike",
        "cyclist",
        "biker",
        "rider",
        "bicyclist",
        "cycle",
        "push bike",
        "person on a bicycle",
        "somebody on a bike",
        "person riding a bike",
        "rider of a bicycle",
    ),
    "car": ("car", "automobile", "sedan", "auto", "hatchback", "passenger car", "saloon"),
    "van": ("van", "minivan", "delivery van", "transporter", "panel van", "minibus"),
    "truck": ("truck", "lorry", "goods vehicle", "freight vehicle", "cargo truck", "heavy truck"),
    "bus": ("bus", "coach", "omnibus", "city bus", "autobus"),
    "vehicle": ("vehicle", "motor vehicle"),
    "child": ("child", "kid", "boy", "girl", "little one", "small person"),
}
COLOURS = {
    "white": ("white", "light", "beige", "cream", "whitish", "pale"),
    "black": ("black", "dark", "blackish"),
    "grey": ("grey", "gray", "silver", "greyish"),
    "red": ("red", "crimson", "reddish", "scarlet"),
    "blue": ("blue", "navy", "bluish"),
    "green": ("green", "olive", "greenish"),
    "yellow": ("yellow", "mustard", "golden", "yellowish"),
    "orange": ("orange", "orangeish"),
    "purple": ("purple", "violet", "lilac"),
}
TURNS = {
    "away": ("leaving", "away", "departing", "from behind", "seen from behind", "from the back", "leaves",
             "that leaves", "with the back to us", "off", "disappearing", "on the way out", "that has passed us"),
    "towards": ("coming", "approaching", "arriving", "from the front", "coming in", "arrives", "that comes closer",
                "that approaches", "seen from the front", "on the way to us", "with the front to us", "coming up"),
    "left": ("to the left", "leftwards", "seen from the left side", "towards the left", "from right to left"),
    "right": ("to the right", "rightwards", "seen from the right side", "towards the right", "from left to right"),
}  # fmt: skip
MOVING = ("going", "moving", "heading", "driving", "walking", "riding", "travelling", "facing", "turned", "pointing",
          "goes", "moves", "heads", "drives", "walks", "rides", "that goes", "which moves", "that is heading",
          "that is going", "crossing")  # fmt: skip
WHERE = {
    "away": ("away", "away from us", "away from the camera", "off", "from here", "out"),
    "towards": ("towards us", "towards the camera", "closer", "nearer", "here", "this way", "in our direction"),
    "left": ("left", "to the left", "leftwards", "leftward", "from right to left", "to the left side"),
    "right": ("right", "to the right", "rightwards", "rightward", "from left to right", "to the right side"),
}
"""With a word of `MOVING` before them they say where something heads, as the phrases of `TURNS` do by themselves."""
LIGHTS = {
    "dusk": ("at night", "at dusk", "in the dark", "after dark", "in the evening light", "by night", "in the evening",
             "when it is dark", "at twilight", "after sunset"),
    "day": ("by day", "in daylight", "at daytime", "during the day", "in the light of day", "when it is bright"),
}  # fmt: skip
GARMENTS = ("jacket", "shirt", "top", "sweater", "pullover", "clothes", "t-shirt", "hoodie", "clothing", "outfit")
CLOTHED = ("in a {}", "with a {}", "wearing a {}", "wearing {}", "in {}", "who wears a {}", "with {} on",
           "that has a {}")  # fmt: skip
RIDDEN = ("whose rider wears {}", "ridden by somebody in {}", "with a rider in {}", "the rider is in {}",
          "the rider has a {}")  # fmt: skip
"""How the clothes of the rider of a bicycle are worded, beside `CLOTHED`."""
RIDERS = ("cyclist", "biker", "rider", "bicyclist")
ON_A_BIKE = ("on a {} bike", "on a {} bicycle", "riding a {} bike", "with a {} bicycle")
"""How the colour of a bicycle goes with its rider; before the word ("red cyclist") it is that of the bicycle, too."""
PAINTED = ("that is {}", "in {}", "with {} paint", "which is {}", "of {} colour", "coloured {}")
BAGS = ("with a bag", "with a backpack", "carrying a bag", "with a rucksack", "with backpack", "who carries a bag",
        "with luggage", "and a bag", "that has a bag")  # fmt: skip
COATS = ("in a coat", "in a long coat", "with a coat", "wearing a coat", "who wears a coat", "with an overcoat")
OPENINGS = ("", "", "", "", "a", "the", "show me a", "find the", "show", "find", "any", "every", "all", "which",
            "photo of a", "where is the", "give me the", "search for a", "an image of a", "look for the", "one",
            "there is a", "i want to see a")  # fmt: skip
HELD_OUT = {
    "opening": ("is there", "was there", "do you see", "i look for", "has anybody seen"),
    "clothes": ("dressed in {}", "clad in {}", "with {} clothing on"),
    "paint": ("painted {}",),
    "away": ("that drives off", "going off", "moves out", "turned away"),
    "towards": ("on its way here", "getting closer", "comes here", "riding this way", "walks in our direction"),
    "left": ("going leftwards", "facing the left side", "heads leftwards", "drives from right to left"),
    "right": ("moving to the right", "crossing to the right", "pointing rightwards", "goes to the right side"),
    "dusk": ("when night falls", "at sunset"),
    "day": ("in the bright light",),
    "bag": ("holding a bag", "with a bag on"),
    "coat": ("has a coat on",),
}
"""Wordings that no caption has, kept for questions in other words (`search_questions`)."""
UNKNOWN = "[UNK]"


@dataclass(frozen=True, slots=True)
class Caption:
    """A text, and what it says; an empty field says nothing. `kind` may be `vehicle` or `large vehicle`."""

    text: str
    kind: str = ""
    colour: str = ""
    heading: str = ""
    light: str = ""
    top: str = ""
    coat: bool = False
    bag: bool = False
    child: bool = False

    def is_true_of(self, what: Described) -> bool:
        """Whether all that it says is true of a crop."""
        return (
            (not self.kind or _is_kind(self.kind, what.kind))
            and (not self.colour or self.colour == what.colour)
            and (not self.heading or self.heading == what.heading)
            and (not self.light or (self.light == "dusk") == (what.light == "dusk"))
            and (not self.top or self.top == what.top)
            and (not self.coat or what.coat)
            and (not self.bag or what.bag)
            and (not self.child or what.child)
        )


class DescribedCrops:
    """What is true of N crops, as columns, so that a caption is compared with all of them at once."""

    def __init__(self, crops: Sequence[Described]) -> None:
        self._texts = {
            name: np.array([getattr(what, name) for what in crops]) for name in ("kind", "colour", "heading", "top")
        }
        self._dusk = np.array([what.light == "dusk" for what in crops])
        self._flags = {name: np.array([getattr(what, name) for what in crops]) for name in ("coat", "bag", "child")}

    def fitting(self, caption: Caption, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return of which crops (K,) of these rows a caption is true, as `Caption.is_true_of` says it."""
        true = np.ones(len(rows), np.bool_)
        for name, known in self._texts.items():
            given = getattr(caption, name)
            if given:
                true &= np.isin(known[rows], _KINDS.get(given, (given,)) if name == "kind" else (given,))
        if caption.light:
            true &= self._dusk[rows] == (caption.light == "dusk")
        for name, flags in self._flags.items():
            if getattr(caption, name):
                true &= flags[rows]
        return true


def _is_kind(said: str, kind: str) -> bool:
    return kind in _KINDS.get(said, (said,))


def caption_of(what: Described, *, rng: np.random.Generator) -> Caption:
    """Say some of what is true of a crop, in no wording of `HELD_OUT`."""
    while has_held_out((caption := _said_of(what, rng=rng)).text):
        pass
    return caption


def has_held_out(text: str) -> bool:
    """Whether a text has a wording that is kept for questions."""
    return _HELD_OUT_PATTERN.search(text) is not None


_HELD_OUT_PATTERN = re.compile(
    "|".join(rf"\b{phrase.replace('{}', '[a-z]+')}\b" for phrases in HELD_OUT.values() for phrase in phrases)
)


def _said_of(what: Described, *, rng: np.random.Generator) -> Caption:  # noqa: C901 - it lists the parts of a caption
    def pick(choices: Sequence[str]) -> str:
        return choices[int(rng.integers(len(choices)))]

    def says(share: float) -> bool:
        return bool(rng.uniform() < share)

    def clothes(colour: str, phrases: Sequence[str]) -> str:
        return pick(phrases).format(pick(COLOURS[colour]) + (" " + pick(GARMENTS) if says(0.7) else ""))

    kind, child = what.kind, what.kind == "person" and what.child and says(0.6)
    noun = pick(NOUNS["child" if child else kind])
    if kind in VEHICLES and says(0.12):
        kind = "large vehicle" if kind in ("truck", "bus") and says(0.5) else "vehicle"
        noun = (pick(("large ", "big ")) if kind == "large vehicle" else "") + pick(NOUNS["vehicle"])
    elif says(0.3):  # the plain word occurs most
        noun = "child" if child else ("cyclist" if kind == "bicycle" and says(0.5) else kind)
    colour = what.colour if says(0.4 if what.kind == "bicycle" else 0.75) else ""
    if what.kind == "bicycle" and " " in noun and noun != "push bike":
        colour = ""  # "a red person on a bicycle" would be somebody else
    before, after = list[str](), list[str]()
    if colour:
        name = pick(COLOURS[colour])
        if what.kind == "person":
            after.append(clothes(colour, CLOTHED))
        elif says(0.5 if noun in RIDERS else 0.2):
            after.append(pick(ON_A_BIKE if noun in RIDERS else PAINTED).format(name))
        else:
            before.append(name)
    heading = what.heading if says(0.45) else ""
    light = ("dusk" if what.light == "dusk" else "day") if says(0.15) else ""
    top = what.top if what.kind == "bicycle" and says(0.6) else ""
    coat, bag = what.coat and says(0.35), what.bag and says(0.45)
    if heading:
        after.append(pick(TURNS[heading]) if says(0.4) else f"{pick(MOVING)} {pick(WHERE[heading])}")
    after += [pick(LIGHTS[light])] if light else []
    after += [clothes(top, CLOTHED + RIDDEN)] if top else []
    after += [pick(COATS)] if coat else []
    after += [pick(BAGS)] if bag else []
    rng.shuffle(after)
    if after and says(0.1):
        before.insert(0, after.pop())  # "leaving red car", as some people type
    words = " ".join([pick(OPENINGS), *before, noun, *after]).split()
    for _ in range(int(rng.integers(1, 4)) if says(0.25) else 0):
        words.insert(int(rng.integers(len(words) + 1)), UNKNOWN)
    return Caption(" ".join(words), kind, colour, heading, light, top, coat, bag, child)


def words_of(text: str) -> list[str]:
    """The words of a text as the tokenizer (`Whitespace`) takes it apart: at hyphens, too."""
    return re.findall(r"\w+|[^\w\s]+", text)


def vocabulary() -> tuple[str, ...]:
    """All words that captions use, sorted, and the padding and the unknown word before them."""
    groups = (NOUNS, COLOURS, TURNS, WHERE, LIGHTS)
    phrases = [phrase for group in groups for choices in group.values() for phrase in choices]
    phrases += [*MOVING, *GARMENTS, *CLOTHED, *RIDDEN, *ON_A_BIKE, *PAINTED, *BAGS, *COATS, *OPENINGS, "large big"]
    return ("[PAD]", UNKNOWN, *sorted({word for phrase in phrases for word in words_of(phrase.replace("{}", ""))}))
