"""Recording what cameras send, as they send it: clips of what happened, and all of it in segments."""
