"""A pipeline in several processes: workers read and compute shares of the streams, the main process merges results."""
