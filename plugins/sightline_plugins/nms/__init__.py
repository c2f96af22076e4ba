"""Non-maximum suppression: the one place that does it. Pure: arrays in, arrays out."""
