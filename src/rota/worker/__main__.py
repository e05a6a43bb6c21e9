"""`python -m rota.worker`, which an orchestrator starts."""

from rota.worker.runtime import main

main()
