"""Build and check what a release consists of; nothing is uploaded."""
