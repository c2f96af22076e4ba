"""Multi-camera tracking: one global id for an object that several streams see."""
