"""`mcp`: jobs for a program that speaks the Model Context Protocol, over stdin and stdout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rota.core.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.invocation import Call


def mcp(call: Call) -> int:
    """Serve one session."""
    if find_spec("mcp") is None:
        raise RotaError("`rota mcp` needs the MCP SDK, which is not installed: pip install 'rota[mcp]'")
    from rota.mcp.serve import serve
    from rota.mcp.session import Wanted

    return serve(call.store, Wanted(call["name"] or "mcp", call["queue"], call["most"] or 1, call["lease"]))
