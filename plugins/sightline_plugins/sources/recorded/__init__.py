"""The source that reads streams of a recorded run."""
