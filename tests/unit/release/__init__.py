"""Tests of the tools that make a release."""
