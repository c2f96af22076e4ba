"""A pipeline for somebody's own camera or file, written after three questions."""
