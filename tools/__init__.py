"""What the project needs besides what it ships: the sample world and the training of its models."""
