"""Comparison of a model in the pipeline with a plain reference, stage by stage."""
