"""Change a pipeline, and what it runs: versions of its configuration, transactions, trials, rollback."""
