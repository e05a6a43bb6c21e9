"""The commands of the HTTP API, for the table."""

from __future__ import annotations

from rota.cli.verb import Argument, Command, Option
from rota.core.access import SCOPES

MCP = (
    Command(
        "mcp",
        "serve jobs as tools over the Model Context Protocol, on stdin and stdout; needs rota[mcp]",
        "verbs.mcp:mcp",
        "rota mcp --name reviewer --queue review",
        options=(
            Option("--name", "the worker's name, as `rota worker list` shows it", "N", default="mcp"),
            Option("--queue", "claim from this queue alone", "Q", "queue"),
            Option("--most", "how many jobs it may hold at a time", "N", "count", default="1"),
            Option("--lease", "how long a claim lasts unless renewed; a bare number is minutes", "D", "lease"),
        ),
    ),
)

HTTP = (
    Command(
        "serve",
        "answer the HTTP API until a signal says stop",
        "verbs.serve:serve",
        "rota serve --port 8356",
        options=(
            Option("--host", "the address to listen on", "HOST", default="127.0.0.1"),
            Option("--port", "the port; 0 takes a free one", "N", "whole", default="8356"),
            Option("--cert", "a certificate file, to speak TLS", "FILE"),
            Option("--key", "its key file", "FILE"),
        ),
    ),
    Command(
        "open",
        "print a link with a one-time code that opens the running API in a browser",
        "verbs.serve:open_link",
        "rota open --browser",
        options=(Option("--browser", "open it there too"),),
    ),
    Command(
        "token create",
        "make an access token for the HTTP API; its secret is printed once",
        "verbs.serve:create_token",
        "rota token create night-shift --scope work",
        (Argument("NAME", "who the event log says it was"),),
        (Option("--scope", "what it may do; may be repeated", "SCOPE", many=True, required=True, choices=SCOPES),),
    ),
    Command("token list", "access tokens, oldest first", "verbs.serve:list_tokens", "rota token list"),
    Command(
        "token revoke",
        "let a token open nothing any more; streams that it opened end",
        "verbs.serve:revoke_token",
        "rota token revoke token-1a2b3c4d",
        (Argument("ID", "the token"),),
    ),
)
