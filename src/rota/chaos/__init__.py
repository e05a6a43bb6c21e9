"""What `rota chaos` runs: a real crew, broken on purpose, and a check of what must hold all the same."""
