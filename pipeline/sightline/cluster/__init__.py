"""Streams over many machines: a controller that places them, leases that fence them, engines that carry messages."""
