"""What elements serve over HTTP and WebSocket, as parts of the one web application of a run."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Mounts:
    """ASGI applications of elements by id; each answers below `/steps/ID/`. From any thread.

    They are called in the event loop of the server, behind its access control: whoever gets there may read. They must
    not block. The path that they see has no `/steps/ID` (`scope["root_path"]` has it).
    """

    def __init__(self) -> None:
        self.is_served = False
        """Whether somebody listens, so that a client can get there."""
        self._lock = Lock()
        self._applications: dict[str, ASGIApp] = {}

    def add(self, element_id: str, application: ASGIApp) -> None:
        """Serve an application from now on, instead of an earlier one of that element."""
        with self._lock:
            self._applications[element_id] = application

    def remove(self, element_id: str, application: ASGIApp) -> None:
        """Stop serving it; harmless when another one has come in its place."""
        with self._lock:
            if self._applications.get(element_id) is application:
                del self._applications[element_id]

    def present(self) -> Mapping[str, ASGIApp]:
        """Return the applications by element."""
        with self._lock:
            return dict(self._applications)
