"""`python -m rota.worker.orphan` is what a worker starts when its orchestrator is gone."""

import sys

from rota.worker.orphan.helper import main

sys.exit(main())
