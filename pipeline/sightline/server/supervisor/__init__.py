"""Several pipelines in one server: a process for each, and the front that supervises and serves them."""
