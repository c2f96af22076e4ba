"""How a model looks at parts of pictures: on an engine of single pictures, or on a GPU from end to end."""
