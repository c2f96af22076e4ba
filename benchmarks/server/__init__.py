"""Serving: what viewers of events cost a pipeline."""
