"""Pipelines of other tools, turned into pipelines of Sightline."""
