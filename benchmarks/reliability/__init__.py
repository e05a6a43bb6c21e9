"""How rota fares when things break: storms over many seeds, and a long life under steady load."""
