"""`python -m rota` runs the command line."""

from rota.cli.main import main

main()
