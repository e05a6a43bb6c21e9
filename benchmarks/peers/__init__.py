"""The other systems of this field, each doing the same work as rota, in an environment of its own."""
