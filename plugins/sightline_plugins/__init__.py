"""The elements that Sightline ships, one folder per kind."""
