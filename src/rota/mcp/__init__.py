"""`rota mcp`: jobs as tools of the Model Context Protocol. The only package that imports its SDK.

One session is one worker. Start at `tools.py`.
"""
