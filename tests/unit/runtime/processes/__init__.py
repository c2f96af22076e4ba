"""Runs in several processes: what is sent, placed, counted and refused."""
