"""The types of request bodies, queries and responses, from which OpenAPI is generated.

They import msgspec and `core`, never the store's implementation. Start at `requests.py` for what clients send and
`nouns.py` for what they get.
"""
