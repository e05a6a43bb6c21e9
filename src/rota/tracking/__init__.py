"""Worker tracking on PostgreSQL: the `ai.*` functions, and the client that reports to them.

Any Python program may use `Tracker` and `Connections`, with or without the rest of rota; they need the extra
`postgres`.
"""

from __future__ import annotations

from rota.tracking.connections import Connections as Connections
from rota.tracking.tracker import Tracker as Tracker
