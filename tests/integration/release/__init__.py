"""Tests of what users install: the wheel, in environments of their own."""
