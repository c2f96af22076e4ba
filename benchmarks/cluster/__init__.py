"""A cluster in simulated time: the controller and the leases that run, in a world that fails on purpose."""
