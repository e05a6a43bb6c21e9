"""Pictures of the screens, taken from real runs."""
