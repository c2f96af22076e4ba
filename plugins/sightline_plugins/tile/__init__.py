"""Tile streams into one video."""
