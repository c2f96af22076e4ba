"""Delivery: what was seen, sent to brokers, databases and web services through the outbox."""
