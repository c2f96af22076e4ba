"""Live video for the dashboard: images and what was found on them, over one WebSocket."""
