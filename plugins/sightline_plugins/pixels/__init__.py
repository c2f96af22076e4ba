"""From surfaces to the inputs of networks: placing, sampling, resizing, colours."""
