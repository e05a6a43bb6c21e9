"""The tools of `rota mcp`: jobs for a program that speaks the Model Context Protocol."""
