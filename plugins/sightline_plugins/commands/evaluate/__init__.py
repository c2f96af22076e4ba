"""Scores of what was found and followed, against truth."""
