"""Proof that a model gives in the pipeline what it gives in a notebook: stage by stage beside a plain reference."""
