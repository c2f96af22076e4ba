"""Pipelines as images: one model of boxes and arrows, and one writer for each format."""
