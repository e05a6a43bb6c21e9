"""The handlers of the API, one file per noun.

Each file ends with its table of routes: method, path, scope, handler. They call the store through `rota.api.request`
and return documents; start at `jobs.py`.
"""
