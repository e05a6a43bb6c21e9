"""For tests of applications: run a handler, work off a queue, and move the clock, in the calling process."""

from __future__ import annotations

from rota.testing.clock import Clock as Clock
from rota.testing.stores import fresh_schema as fresh_schema
from rota.testing.stores import temporary as temporary
from rota.testing.trial import Ran as Ran
from rota.testing.trial import run as run
from rota.testing.work import work_off as work_off
