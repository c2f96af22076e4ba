"""Tracking: gives the objects of a stream ids that last."""
