"""`mcp`: jobs as tools over the Model Context Protocol, on stdin and stdout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rota.cli.verb import Option, verb
from rota.core.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.invocation import Call


@verb(
    "mcp",
    "serve jobs as tools over the Model Context Protocol, on stdin and stdout; needs rota[mcp]",
    "rota mcp --name reviewer --queue review",
    options=(
        Option("--name", "the worker's name, as `rota worker list` shows it", "N", default="mcp"),
        Option("--queue", "claim from this queue alone", "Q", "queue"),
        Option("--most", "how many jobs it may hold at a time", "N", "count", default="1"),
        Option("--lease", "how long a claim lasts unless renewed; a bare number is minutes", "D", "lease"),
    ),
)
def mcp(call: Call) -> int:
    if find_spec("mcp") is None:
        raise RotaError("`rota mcp` needs the MCP SDK, which is not installed: pip install 'rota[mcp]'")
    from rota.mcp.serve import serve
    from rota.mcp.session import SessionSettings

    return serve(call.store, SessionSettings(call["name"] or "mcp", call["queue"], call["most"] or 1, call["lease"]))
