"""The outbox: what it keeps, hands out, drops and reports."""
