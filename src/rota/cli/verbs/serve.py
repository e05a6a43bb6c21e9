"""The servers: `serve` and `open` with the access tokens of the HTTP API, and `mcp` on stdin and stdout."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rota import documents
from rota.api.credentials import local_address, local_secret
from rota.cli.invocation import aside, columns, moment
from rota.cli.verb import Argument, Option, verb
from rota.core.access import SCOPES, own_name
from rota.core.errors import NotFound, Refused, RotaError
from rota.orchestrator.pidlock import holder, lock_path
from rota.settings import check

if TYPE_CHECKING:
    from rota.cli.invocation import Call

API_WITHIN = 5.0


@verb(
    "serve",
    "answer the HTTP API until a signal says stop",
    "rota serve --port 8356",
    options=(
        Option("--host", "the address to listen on", "HOST", default="127.0.0.1"),
        Option("--port", "the port; 0 takes a free one", "N", "whole", default="8356"),
        Option("--cert", "a certificate file, to speak TLS", "FILE"),
        Option("--key", "its key file", "FILE"),
    ),
)
def serve(call: Call) -> int:
    from rota.api.server import serve

    options = {"http_host": call["host"], "http_port": call["port"], "http_cert": call["cert"], "http_key": call["key"]}
    changes = {name: value for name, value in options.items() if value is not None}
    return serve(check(call.settings().replace(**changes)), call.say)


@verb(
    "open",
    "print a link with a one-time code that opens the running API in a browser",
    "rota open --browser",
    options=(Option("--browser", "open it there too"),),
)
def open_link(call: Call) -> int:
    with call.store() as store:
        if store.link is not None:
            link: str = store.link.post("/codes")["link"]
        else:
            beside = store.database.beside
            link = ask_for_link(_address(beside), local_secret(beside))
    call.answer({"link": link}, link)
    if call["browser"]:
        import webbrowser

        if not webbrowser.open(link):
            aside("there is no browser here to open: follow the link yourself within a minute")
    return 0


def _address(beside: str) -> str:
    """Return where the API answers, waiting a moment for an orchestrator that has just started."""
    deadline = time.monotonic() + API_WITHIN
    while True:
        try:
            return local_address(beside)
        except NotFound:
            if holder(lock_path(beside)) is None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def ask_for_link(address: str, secret: str) -> str:
    """Ask the API for a link with a one-time code.

    Raises:
        Refused: Nothing answers at this address.
        RotaError: The API refused; the message has its reason.
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import (
        HTTPDefaultErrorHandler,
        HTTPErrorProcessor,
        HTTPHandler,
        HTTPSHandler,
        OpenerDirector,
        Request,
    )

    # Without the default handlers: neither a proxy of the environment nor a redirection may get the secret.
    direct = OpenerDirector()
    for handler in (HTTPHandler(), HTTPSHandler(), HTTPErrorProcessor(), HTTPDefaultErrorHandler()):
        direct.add_handler(handler)
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    try:
        with direct.open(Request(f"{address}/api/v1/codes", b"{}", headers), timeout=10) as answer:  # noqa: S310 - as above
            code = json.load(answer)["code"]
    except HTTPError as problem:
        raise RotaError(f"{address} answered {problem.code}: {json.load(problem)['detail']}") from None
    except (URLError, OSError) as problem:
        raise Refused(f"nothing answers at {address} ({problem}): start it with `rota serve`") from None
    return f"{address}/open?code={code}"


@verb(
    "token create",
    "make an access token for the HTTP API; its secret is printed once",
    "rota token create night-shift --scope work",
    (Argument("NAME", "who the event log says it was"),),
    (Option("--scope", "what it may do; may be repeated", "SCOPE", many=True, required=True, choices=SCOPES),),
)
def create_token(call: Call) -> int:
    with call.store() as store:
        token, secret = store.tokens.create(own_name(call["name"]), call["scope"])
    call.answer({**documents.token(token), "secret": secret}, secret)
    if not call.json:
        aside(f"{token.id} may {', '.join(sorted(token.scopes))}; this is the only time that its secret is shown")
    return 0


@verb("token list", "access tokens, oldest first", "rota token list")
def list_tokens(call: Call) -> int:
    with call.store() as store:
        tokens = store.tokens.list()
    heads = ("ID", "STATUS", "SCOPES", "CREATED", "LAST USED", "NAME")
    rows = [
        (
            token.id,
            "open" if token.revoked_at is None else "revoked",
            " ".join(sorted(token.scopes)),
            moment(token.created_at),
            moment(token.last_used_at) or "never",
            token.name,
        )
        for token in tokens
    ]
    empty = "no access tokens; make one with: rota token create NAME --scope read"
    return call.listing([documents.token(token) for token in tokens], lambda: columns(call, heads, rows), empty)


@verb(
    "token revoke",
    "let a token open nothing any more; streams that it opened end",
    "rota token revoke token-1a2b3c4d",
    (Argument("ID", "the token"),),
)
def revoke_token(call: Call) -> int:
    with call.store() as store:
        token = store.tokens.revoke(call["id"])
    return call.answer(documents.token(token), f"{token.id} ({token.name}) is revoked")


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
    from rota.mcp.tool_session import SessionSettings
    from rota.mcp.tools import serve

    return serve(call.store, SessionSettings(call["name"] or "mcp", call["queue"], call["most"] or 1, call["lease"]))
