"""Engines whose inputs and outputs lie in the memory of a GPU."""
