"""Serving: health, metrics, status and a page of a running pipeline over HTTP, for monitoring and for people."""

from sightline.serve.listener import Listener, listen

__all__ = ["Listener", "listen"]
