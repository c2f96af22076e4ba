"""OpenTelemetry: what a run sends to a collector."""
