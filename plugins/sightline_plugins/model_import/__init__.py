"""Read what people have as models (files, and folders of other tools) into cards, and judge them."""

from sightline_plugins.model_import.find import read_package
from sightline_plugins.model_import.judging import Judged, judge
from sightline_plugins.model_import.package import ModelPackage

__all__ = ["Judged", "ModelPackage", "judge", "read_package"]
