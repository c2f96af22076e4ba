"""`detect`: find objects."""

from __future__ import annotations

from typing import ClassVar

from sightline_plugins.infer.options import DetectionElement


class Detect(DetectionElement):
    """Find objects with a neural network (an ONNX file) and add them to the objects of earlier steps.

    Boxes are in pixels of the source frame, clipped to it. Options that are not given come from the model card
    (`street.yaml` beside `street.onnx`), then from the file's metadata, then from the defaults of the head's family; so
    a known export needs nothing but `model`. Results do not depend on batch size, number of streams or timing.

    Trade-offs:

    - A low `confidence` finds more objects and is wrong more often; for a tracker 0.1 can be right, because it filters
      by itself. `class_confidence` sets it per class.
    - `every: 3` runs the network on every third frame of each stream, for a third of the cost; a tracker predicts the
      frames between, which have no detections.
    - `regions` runs the network once per region: small distant objects are seen larger, and each region costs a run.
      Detections that overlapping regions share are merged.
    - `tiles` cuts large frames into overlapping tiles to find small objects: more tiles find smaller objects, and cost
      more runs. Objects that are cut by tile edges are merged.
    - `on` looks for objects on objects of earlier steps (plates on cars); what is found becomes a child of the object.
    - `convert: network` converts colours after the resize, which is fastest; `image` converts before it, as training
      code does: it gives exactly the numbers of OpenCV, and costs more the larger the frame.
    - `resize: area` averages instead of sampling: more stable on small objects in large frames, and slower.

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
