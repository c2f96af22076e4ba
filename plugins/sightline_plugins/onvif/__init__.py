"""ONVIF: find cameras on the network, and ask them for the addresses of their streams."""
