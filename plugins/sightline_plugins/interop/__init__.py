"""Results in the form of other tools, and back: supervision, Ultralytics' `Results`, pandas, polars and Arrow.

Nothing here runs in a pipeline, and the packages are imported when a function that needs them is called.
"""

from sightline_plugins.interop.results import Results
from sightline_plugins.interop.supervision import from_supervision, to_supervision, to_supervision_keypoints
from sightline_plugins.interop.tables import Collected, ResultTable, collect

__all__ = [
    "Collected",
    "ResultTable",
    "Results",
    "collect",
    "from_supervision",
    "to_supervision",
    "to_supervision_keypoints",
]
