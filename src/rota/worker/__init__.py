"""What runs a handler."""
