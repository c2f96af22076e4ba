"""Heads: decode the raw outputs of models. `head.py` is the contract; `registry.py` finds installed heads."""
