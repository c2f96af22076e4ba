"""What a model is run on: the picture, regions and tiles of it, or objects of steps before."""
