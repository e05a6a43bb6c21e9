"""For all tests: how hard Hypothesis tries, and that what they start hears an interrupt."""

from __future__ import annotations

import signal

from tests.support import profiles

profiles.load()
# A shell that runs us in the background lets us ignore interrupts, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
