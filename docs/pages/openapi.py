"""The description of the HTTP API, for programs."""

from __future__ import annotations

import json

from rota.api.app import ROUTES
from rota.api.openapi import document


def page() -> str:
    return json.dumps(document(ROUTES), indent=1) + "\n"
