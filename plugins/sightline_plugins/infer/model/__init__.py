"""A model as its file, its card and the options of a step describe it."""
