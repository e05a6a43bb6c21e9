"""One module for each system, which runs in that system's own environment."""
