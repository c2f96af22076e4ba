"""`privacy`: nobody in the image can be recognised, and what was not searched is not shown."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from sightline.graph import Capability, Element, Operator, Site
from sightline.graph.described import Described
from sightline.graph.fields import Fraction
from sightline.graph.references import Named


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_targets(value: object) -> object:
    return {"label": value} if isinstance(value, str | list | tuple) else value


class Targets(Described):
    """Which objects are hidden."""

    label: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """Labels of the objects."""
    origin: Annotated[str | None, Field(alias="from")] = None
    """The step that found them, by its id; any when not given."""


class Privacy(Element):
    """Hide faces, plates, people: in everything after this step, for good. What nobody searched is hidden whole.

    It works on the planes of a copy of the image, in the memory where that lies; branches that left before this step,
    and records, keep what they have. The rest of the image stays as it is, to the bit.

    **It fails closed.** An image passes only when each step named in `detector` searched all of it: when it did not
    run (`every: 2`), when its outputs were no finite numbers, or when a box is none, the whole image is hidden. The
    report counts, for each stream, `frames`, and of these `objects_hidden`, `wholly_hidden` and `clear` ones (searched,
    and nothing to hide), whose sum is `frames`; `objects` are the objects hidden. What a detector overlooks is not
    hidden: let it be unsure rather (`confidence: 0.2`), and hide more (`margin`).

    The knobs and what they trade:

    - `method`: `blur` and `pixelate` keep the means of a few cells, so that people still see that somebody is there;
      `fill` keeps nothing, and is the one to choose where videos may be studied image by image.
    - `strength`: 0 keeps 8 cells along the longer side of an object, 0.5 keeps 4, 1 keeps one.
    - `shape: mask` hides no more than the object where it has a mask (`segment`), and its box where it has none.
    - `trust_tracks` shows images that a detector with `every: 2` left out, if a tracker foresees where things
      are, for a second at most. A face that appears just then is seen until the detector's next look.

    ```yaml
    - detect: {model: models/street.onnx, confidence: 0.2}
    - privacy: {on: person, detector: detect-1, margin: 0.1}
    ```
    """

    name: ClassVar[str] = "privacy"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    changes_images: ClassVar[bool] = True
    redacts: ClassVar[bool] = True

    on: Annotated[Targets, BeforeValidator(_as_targets)]
    """What is hidden: a label, a list of labels, or a mapping such as {label: face, from: detect-1}."""
    detector: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """The step that has to have searched an image, by its id (`detect-1`), or several that all have to."""
    method: Literal["blur", "pixelate", "fill"] = "blur"
    """How it is hidden: `blur`, `pixelate` in squares, or `fill` with black."""
    strength: Fraction = 0.5
    """How little is kept: 0 keeps 8 cells along the longer side, 1 keeps one; without effect on `fill`."""
    margin: Annotated[float, Field(ge=0, le=4)] = 0.15
    """How far beyond the box is hidden, on each side, as a share of the box's width and height."""
    shape: Literal["box", "ellipse", "mask"] = "box"
    """What is hidden of each object: its box, the ellipse in it, or its mask; each with the margin."""
    trust_tracks: bool = False
    """Show images that no detector ran on when the last search is no more than a second ago, with the objects hidden
    where a tracker expects them."""

    def required(self) -> frozenset[Capability]:
        """Objects, and tracks when they are trusted."""
        return self.needs | {Capability.TRACKS} if self.trust_tracks else self.needs

    def wanted_labels(self) -> Named:
        """The labels that `on` names."""
        return [(("on", "label", number), label) for number, label in enumerate(self.on.label)]

    def named_steps(self) -> Named:
        """The step that `on` names."""
        return () if self.on.origin is None else [(("on", "from"), self.on.origin)]

    def relied_on(self) -> Named:
        """The detectors."""
        return [(("detector", number), name) for number, name in enumerate(self.detector)]

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported here."""
        from sightline_plugins.draw.concealment import Concealment, Orders

        orders = Orders(
            labels=self.on.label,
            origin=self.on.origin,
            detectors=frozenset(self.detector),
            method=self.method,
            strength=self.strength,
            margin=self.margin,
            shape=self.shape,
            trust_tracks=self.trust_tracks,
        )
        if site.gpu is None:
            return Concealment(orders, warn=site.warn)
        from sightline_plugins.draw.cuda import hiding_canvases

        return Concealment(orders, warn=site.warn, canvases=hiding_canvases(site.gpu))
