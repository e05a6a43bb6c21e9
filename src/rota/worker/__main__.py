"""`python -m rota.worker` is what an orchestrator starts."""

from rota.worker.runtime import main

main()
