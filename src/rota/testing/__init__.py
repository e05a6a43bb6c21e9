"""For tests of applications: run a handler, work off a queue, and move the clock, in the calling process.

It imports `app` and all below; only `pytest_plugin` and tests import it. Start at `local_runs.py`.
"""

from __future__ import annotations

from rota.testing.local_runs import Ran as Ran
from rota.testing.local_runs import run as run
from rota.testing.local_runs import work_off as work_off
from rota.testing.stores import Clock as Clock
from rota.testing.stores import fresh_schema as fresh_schema
from rota.testing.stores import temporary as temporary
