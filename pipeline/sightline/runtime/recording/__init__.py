"""Recordings of whole runs: what went in, in which order, and what came out."""
