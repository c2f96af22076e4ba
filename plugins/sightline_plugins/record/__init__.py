"""Record the streams of cameras without re-encoding: clips around events, and segments of everything."""
