"""Worker tracking on PostgreSQL: the `ai.*` functions, and the client that reports to them.

`Tracker` and `Lines` are for any Python program, with or without the rest of rota; they need the extra `postgres`.
"""

from __future__ import annotations

from rota.tracking.connections import Lines as Lines
from rota.tracking.tracker import Tracker as Tracker
