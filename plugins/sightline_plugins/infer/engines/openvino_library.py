"""The OpenVINO package, imported without its usage statistics; the one place that imports it.

`import openvino` starts a thread that reports the import to an analytics service unless the user has opted out.
Sightline sends nothing anywhere unasked, so the package that does this is hidden while OpenVINO is imported, which
then takes its own stand-in.
"""

from __future__ import annotations

import sys
from types import ModuleType

REPORTER = "openvino_telemetry"


def _import_silently() -> ModuleType:
    hidden = REPORTER not in sys.modules
    if hidden:
        sys.modules[REPORTER] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if hidden:
            del sys.modules[REPORTER]
    library: ModuleType = openvino
    return library


ov = _import_silently()
