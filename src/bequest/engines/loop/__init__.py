"""Real nodes on a virtual network, in one process."""
