"""Turn configurations of DeepStream into a pipeline of Sightline, and report what becomes of every key."""
