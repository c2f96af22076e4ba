"""Delivery: records a second through the outbox beside the plain client in a loop, and what it costs a pipeline."""
