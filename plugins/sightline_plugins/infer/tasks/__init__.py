"""Tasks: what the findings of a model become."""
