"""Heads of models that choose their boxes themselves, each in the order and units of its framework."""
