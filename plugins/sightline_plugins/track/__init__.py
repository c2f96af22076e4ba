"""Tracking: give the objects of a stream stable ids."""
