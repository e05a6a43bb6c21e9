"""One module per generated page; each has `page() -> str`, made from the code and nothing else."""
