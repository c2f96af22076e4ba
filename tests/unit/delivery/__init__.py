"""Delivery without a network: records, formats, the outbox."""
