"""The one web application of a running pipeline: for monitoring, for people, and for programs that steer it."""

from __future__ import annotations

from sightline.server.application import Listener, listen
from sightline.server.serving import Certificate

__all__ = ["Certificate", "Listener", "listen"]
