"""`sightline inspect`: how the results of one frame of a recorded run came about, as images."""
