"""`python -m rota.orchestrator JSON` is an orchestrator in a process of its own: see `rota.orchestrator.daemon`."""

from rota.orchestrator.daemon import main

main()
