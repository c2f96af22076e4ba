"""Heads whose boxes belong to the cells of grids that lie over the picture, without anchors."""
