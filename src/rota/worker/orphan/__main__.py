"""`python -m rota.worker.orphan`, which a worker starts when its orchestrator is gone."""

import sys

from rota.worker.orphan.helper import main

sys.exit(main())
