"""Wrong input made at random, but from seeds: `python -m tools.fuzz` (or `make fuzz`)."""
