"""For tests of applications: run a handler, work off a queue, and move the clock, in the calling process.

It imports `app` and all below; only `pytest_plugin` and tests import it. Start at `runs.py`.
"""

from __future__ import annotations

from rota.testing.runs import Ran as Ran
from rota.testing.runs import run as run
from rota.testing.runs import work_off as work_off
from rota.testing.stores import Clock as Clock
from rota.testing.stores import fresh_schema as fresh_schema
from rota.testing.stores import temporary as temporary
