"""What a collector of OpenTelemetry receives, decoded with the official package."""
