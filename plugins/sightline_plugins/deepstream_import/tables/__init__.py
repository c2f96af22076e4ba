"""What becomes of each key, section by section. A table is data: tests hold it against the lists of the parsers."""
