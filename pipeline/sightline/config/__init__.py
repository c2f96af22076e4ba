"""YAML to elements, and every mistake in it with its place."""
