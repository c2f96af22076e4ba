"""`detect`: finds objects with a neural network."""

from __future__ import annotations

from typing import ClassVar

from sightline_plugins.infer.options import DetectionElement


class Detect(DetectionElement):
    """Finds objects with a neural network (an ONNX file) and adds them to those already there.

    Boxes come back in pixels of the source image, clipped to it. What is not said here comes from the model card
    (`street.yaml` beside `street.onnx`), then from the file's metadata, then from the habits of the head's family; so a
    known export needs nothing but `model`. Results do not depend on batch size, number of streams or timing.

    The knobs and what they trade:

    - `confidence` low finds more and is wrong more often; a tracker may want 0.1 and sort it out itself.
      `class_confidence` sets it class by class.
    - `every: 3` runs the network on every third frame of each stream, for a third of the cost; a tracker predicts on
      the others, which carry no detections.
    - `regions` runs the network once for each region: small things far away are seen larger, and each region costs a
      run. What is found twice where regions overlap is merged.
    - `tiles` cuts large images into overlapping tiles, for things that are small in them: the more tiles, the smaller
      the things that are found, and the more runs. Pieces at the edges of tiles are put together.
    - `on` looks for things on objects of steps before (plates on cars); what is found is a child of the object.
    - `convert: network` converts colours after the image was made small, which is the fastest; `image` converts
      first, as training code does: it gives the very numbers that OpenCV would, and costs more the larger the image.
    - `resize: area` averages instead of sampling: steadier on small things in large images, and slower.

    ```yaml
    detect:
      model: models/street.onnx
      confidence: 0.4
      classes: [car, person]
      class_confidence: {person: 0.3}
    ```
    """

    name: ClassVar[str] = "detect"
    task: ClassVar[str] = "detect"
