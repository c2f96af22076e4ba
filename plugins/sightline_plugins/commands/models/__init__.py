"""Commands about model files: what a model is, and how Sightline runs it."""
