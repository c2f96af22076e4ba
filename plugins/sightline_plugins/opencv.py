"""The one import of OpenCV: `from sightline_plugins.opencv import cv2`.

Several distributions provide the module `cv2`, and some need libraries of the system (docs/decisions/0001). Where it
cannot be imported, the message tells which case this is and what to do.
"""

from __future__ import annotations

from sightline.errors import ConfigurationError
from sightline.libraries import OPENCV, import_advice

__all__ = ["cv2"]

try:
    import cv2

    cv2.__version__  # noqa: B018  what is left of a removed OpenCV is imported as an empty namespace
except (ImportError, AttributeError) as error:
    raise ConfigurationError(f"OpenCV cannot be imported ({error}): {import_advice(error, OPENCV)}") from error
