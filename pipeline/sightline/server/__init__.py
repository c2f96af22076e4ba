"""Serving: health, metrics, status and a page of a running pipeline over HTTP, for monitoring and for people."""

from __future__ import annotations

from sightline.server.application import Listener, listen

__all__ = ["Listener", "listen"]
