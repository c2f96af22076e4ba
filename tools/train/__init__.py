"""Trains and measures the models of the project on its own sample world."""
