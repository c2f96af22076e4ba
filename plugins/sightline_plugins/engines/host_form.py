"""`ImageForm` computed with NumPy, for models whose graph is out of reach because they are served elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import Array, TensorSpec
from sightline_plugins.pixels.image_form import ImageForm


@dataclass(frozen=True, slots=True)
class HostForm:
    """What is done to the image, the input number `image`, before it goes to a model that takes `spec`.

    `first` says that the model's channels come first.
    """

    form: ImageForm
    image: int
    spec: TensorSpec
    first: bool

    @property
    def taken(self) -> TensorSpec:
        """The input as it is to be given: the form's layout and element type, batch 1."""
        rows, *sizes = self.spec.shape
        del rows
        channels, height, width = sizes if self.first else (sizes[2], *sizes[:2])
        if self.form.size_wh is not None:
            width, height = self.form.size_wh
        shape = (height, width, channels) if self.form.layout == "nhwc" else (channels, height, width)
        return replace(self.spec, shape=(1, *shape), dtype=np.dtype(self.form.dtype))

    def apply(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The inputs that the model takes."""
        seen = inputs[self.image]
        last = self.form.layout == "nhwc"
        if self.spec.dtype.kind == "f":
            mean, scale = (np.array(values, np.float32) for values in (self.form.mean, self.form.scale))
            shape = (-1,) if last else (-1, 1, 1)
            seen = (seen.astype(np.float32) - mean.reshape(shape)) * scale.reshape(shape)
        if last == self.first:
            seen = seen.transpose(0, 3, 1, 2) if last else seen.transpose(0, 2, 3, 1)
        made = np.ascontiguousarray(seen, self.spec.dtype)
        return tuple(made if place == self.image else array for place, array in enumerate(inputs))


def host_form(form: ImageForm, specs: Sequence[TensorSpec]) -> HostForm:
    """The form for the first input of rank 4 with 1, 3 or 4 channels. Raises ModelError when there is none."""
    for place, spec in enumerate(specs):
        for axis in (1, 3):
            if len(spec.shape) == 4 and spec.shape[axis] in (1, 3, 4):
                return HostForm(form, place, spec, first=axis == 1)
    found = "; ".join(map(str, specs))
    raise ModelError(f"no input takes an image (1 x channels x height x width, 1, 3 or 4 channels); found {found}")
