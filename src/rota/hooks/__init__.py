"""A worker in the calling process: two hooks, `execute` and `capture_io`, and `run_worker`, which calls them."""
