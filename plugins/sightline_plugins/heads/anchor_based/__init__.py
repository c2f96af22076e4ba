"""Heads that correct anchors (default boxes)."""
