"""What finds work in the user's own data: a declared source, and one that is a query."""
