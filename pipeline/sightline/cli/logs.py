"""Logs of commands on standard error, without passwords."""

from __future__ import annotations

import logging

from sightline.redaction import redact


class RedactingFormatter(logging.Formatter):
    """Formats records, tracebacks included, and takes credentials out of what comes of it."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        return redact(super().format(record))


def log_to_stderr(level: int) -> None:
    """Log what Sightline says from that level on, and warnings of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("sightline").setLevel(level)
