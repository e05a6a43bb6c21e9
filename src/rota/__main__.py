"""`python -m rota` is the command line."""

from rota.cli import main

main()
