"""`rota top`: what happens now, on a terminal. Only this package knows textual."""
