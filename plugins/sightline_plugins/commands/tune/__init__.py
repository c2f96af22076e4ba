"""`sightline tune`: choose how often a detector runs, by what that loses on a clip of the camera."""
