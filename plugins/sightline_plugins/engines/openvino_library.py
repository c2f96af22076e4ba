"""The OpenVINO package, imported without its usage statistics; the one place that imports it.

`import openvino` starts a thread that reports the import to an analytics service unless the user has opted out.
Sightline sends nothing anywhere unasked, so the package that does this is hidden while OpenVINO is imported, which
then takes its own stand-in.
"""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

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


ov: Any = _import_silently()


@cache
def core() -> Any:
    """The one OpenVINO core of the process; it is never let go of.

    A core gives the thread that makes it a stack for signals, and frees that when it is destroyed, in whatever thread
    that happens. If it is another one (a pipeline is built in one thread and closed in another), the first is left with
    a stack that is gone, and the next Ctrl-C kills the process.
    """
    return ov.Core()
