"""`sightline camera`: video files shown by a fake camera."""
