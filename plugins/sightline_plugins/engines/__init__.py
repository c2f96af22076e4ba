"""Engines: what executes a model. `protocol` holds the contract and `open_engine`; importing it loads no engine."""
