"""Delivery to real brokers, databases and web services, through outages."""
