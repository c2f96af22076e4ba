"""What people say of a crop: captions of some of what is true of it, and which captions are true of which crops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.train.search_samples import Described

VEHICLES = ("car", "van", "truck", "bus")
NOUNS = {
    "person": ("person", "pedestrian", "somebody", "someone", "human", "walker", "people", "man", "woman", "figure"),
    "bicycle": ("bicycle", "bike", "cyclist", "biker", "rider", "bicyclist", "cycle"),
    "car": ("car", "automobile", "sedan", "auto", "hatchback"),
    "van": ("van", "minivan", "delivery van", "transporter"),
    "truck": ("truck", "lorry", "goods vehicle"),
    "bus": ("bus", "coach", "omnibus"),
    "vehicle": ("vehicle", "motor vehicle"),
    "child": ("child", "kid", "boy", "girl"),
}
COLOURS = {
    "white": ("white", "light", "beige", "cream"),
    "black": ("black", "dark"),
    "grey": ("grey", "gray", "silver"),
    "red": ("red", "crimson"),
    "blue": ("blue", "navy"),
    "green": ("green", "olive"),
    "yellow": ("yellow", "mustard", "golden"),
    "orange": ("orange",),
    "purple": ("purple", "violet"),
}
TURNS = {
    "away": ("leaving", "away", "driving away", "going away", "walking away", "riding away", "departing", "from behind",
             "seen from behind", "heading away", "moving away", "from the back", "leaves", "that leaves"),
    "towards": ("coming", "approaching", "arriving", "towards the camera", "coming closer", "from the front",
                "coming in", "facing the camera", "coming towards us", "driving towards the camera", "arrives",
                "that comes closer"),
    "left": ("to the left", "moving left", "heading left", "going left", "driving to the left", "walking left",
             "leftwards"),
    "right": ("to the right", "moving right", "heading right", "going right", "driving to the right", "walking right",
              "rightwards"),
}  # fmt: skip
LIGHTS = {
    "dusk": ("at night", "at dusk", "in the dark", "after dark", "in the evening light", "by night"),
    "day": ("by day", "in daylight", "at daytime", "during the day"),
}
GARMENTS = ("jacket", "shirt", "top", "sweater", "pullover", "clothes")
BAGS = ("with a bag", "with a backpack", "carrying a bag", "with a rucksack", "with backpack")
COATS = ("in a coat", "in a long coat", "with a coat", "wearing a coat")
OPENINGS = (
    "",
    "",
    "",
    "",
    "a",
    "the",
    "show me a",
    "find the",
    "show",
    "find",
    "any",
    "every",
    "all",
    "which",
    "photo of a",
)
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


def _is_kind(said: str, kind: str) -> bool:
    if said == "vehicle":
        return kind in VEHICLES
    if said == "large vehicle":
        return kind in ("truck", "bus")
    return said == kind


def caption_of(what: Described, *, rng: np.random.Generator) -> Caption:
    """Say some of what is true of a crop."""

    def pick(choices: tuple[str, ...]) -> str:
        return str(choices[rng.integers(len(choices))])

    def says(share: float) -> bool:
        return bool(rng.uniform() < share)

    kind, child = what.kind, what.kind == "person" and what.child and says(0.6)
    noun = pick(NOUNS["child" if child else kind])
    if kind in VEHICLES and says(0.12):
        kind = "large vehicle" if kind in ("truck", "bus") and says(0.5) else "vehicle"
        noun = (pick(("large ", "big ")) if kind == "large vehicle" else "") + pick(NOUNS["vehicle"])
    elif says(0.3):  # the plain word occurs most
        noun = "child" if child else ("cyclist" if kind == "bicycle" and says(0.5) else kind)
    colour = what.colour if says(0.75) else ""
    before, after = [], []
    if colour and what.kind == "person":
        clothes = pick(COLOURS[colour]) + " " + pick(GARMENTS)
        after.append(
            pick((f"in a {clothes}", f"with a {clothes}", f"wearing {clothes}", f"in {pick(COLOURS[colour])}"))
        )
    elif colour:
        before.append(pick(COLOURS[colour]))
    heading = what.heading if says(0.45) else ""
    light = ("dusk" if what.light == "dusk" else "day") if says(0.15) else ""
    top = what.top if what.kind == "bicycle" and says(0.3) else ""
    coat, bag = what.coat and says(0.35), what.bag and says(0.45)
    after += [pick(TURNS[heading])] if heading else []
    after += [pick(LIGHTS[light])] if light else []
    after += [f"with a {pick(COLOURS[top])} {pick(GARMENTS)}"] if top else []
    after += [pick(COATS)] if coat else []
    after += [pick(BAGS)] if bag else []
    rng.shuffle(after)
    if after and says(0.1):
        before.insert(0, after.pop())  # "leaving red car", as some people type
    words = [pick(OPENINGS), *before, noun, *after]
    if says(0.15):
        words.insert(int(rng.integers(1, len(words) + 1)), UNKNOWN)
    text = " ".join(word for word in words if word)
    return Caption(text, kind, colour, heading, light, top, coat, bag, child)


def vocabulary() -> tuple[str, ...]:
    """All words that captions use, sorted, and the padding and the unknown word before them."""
    groups = (NOUNS, COLOURS, TURNS, LIGHTS)
    phrases = [phrase for group in groups for choices in group.values() for phrase in choices]
    phrases += [*GARMENTS, *BAGS, *COATS, *OPENINGS, "in a with wearing large big"]
    return ("[PAD]", UNKNOWN, *sorted({word for phrase in phrases for word in phrase.split()}))
