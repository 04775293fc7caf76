"""All nodes as rows of arrays: the fastest engine, for studies."""
