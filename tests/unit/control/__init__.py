"""Tests of changes: versions, transactions, trials."""
