"""One check kind a file."""
