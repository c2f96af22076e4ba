"""Class numbers that mean the same for all objects of a frame, as other tools have them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.media import Objects


def common_classes(objects: Objects) -> tuple[npt.NDArray[np.int32], dict[int, str]]:
    """Return the class (N,) of each object and the names of these numbers.

    Objects of one step keep the numbers of its model, and all its labels are named. Where several steps found objects,
    number 0 may be a car for one and a face for the other: then labels are numbered in the order of the steps, equal
    labels once.
    """
    if len(objects.origins) == 1:
        known = dict(enumerate(objects.origins[0].labels))
        unnamed = {number: str(number) for number in np.unique(objects.class_id).tolist() if number not in known}
        return objects.class_id, known | unnamed
    labels = objects.labels()
    names = dict.fromkeys([*(label for origin in objects.origins for label in origin.labels), *labels])
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[label] for label in labels], np.int32), {number: name for name, number in numbers.items()}
