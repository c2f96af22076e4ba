"""`sightline plan`: how many streams fit on this machine, and how many machines a fleet needs."""
