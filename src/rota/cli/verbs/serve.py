"""The HTTP API and its access tokens: `serve`, `open`, `token create`, `token list`, `token revoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.cli.invocation import aside
from rota.cli.output import columns, moment
from rota.cli.verb import Argument, Option, verb
from rota.core.access import SCOPES, own_name
from rota.core.errors import NotFound, Refused, RotaError
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

    given = {"http_host": call["host"], "http_port": call["port"], "http_cert": call["cert"], "http_key": call["key"]}
    changes = {name: value for name, value in given.items() if value is not None}
    return serve(check(call.settings().replace(**changes)), call.say)


@verb(
    "open",
    "print a link with a one-time code that opens the running API in a browser",
    "rota open --browser",
    options=(Option("--browser", "open it there too"),),
)
def open_link(call: Call) -> int:
    from rota.api.credentials import local_secret

    with call.store() as store:
        if store.link is not None:
            link: str = store.link.post("/codes")["link"]
        else:
            beside = store.database.beside
            link = ask_for_link(_address(beside), local_secret(beside))
    if call.json:
        call.document({"link": link})
    else:
        call.say(link)
    if call["browser"]:
        import webbrowser

        if not webbrowser.open(link):
            aside("there is no browser here to open: follow the link yourself within a minute")
    return 0


def _address(beside: str) -> str:
    """Return where the API answers, waiting a moment for an orchestrator that has just started."""
    import time

    from rota.api.credentials import local_address
    from rota.orchestrator.main import lock_path
    from rota.orchestrator.pidlock import holder

    deadline = time.monotonic() + API_WITHIN
    while True:
        try:
            return local_address(beside)
        except NotFound:
            if holder(lock_path(beside)) is None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def ask_for_link(address: str, secret: str) -> str:
    """Ask the API for a link with a one-time code."""
    import json
    from urllib.error import HTTPError, URLError
    from urllib.request import (
        HTTPDefaultErrorHandler,
        HTTPErrorProcessor,
        HTTPHandler,
        HTTPSHandler,
        OpenerDirector,
        Request,
    )

    direct = OpenerDirector()  # no proxy of the environment and no redirection gets the secret
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
    if call.json:
        call.document({**documents.token(token), "secret": secret})
    else:
        call.say(secret)
        aside(f"{token.id} may {', '.join(sorted(token.scopes))}; this is the only time that its secret is shown")
    return 0


@verb("token list", "access tokens, oldest first", "rota token list")
def list_tokens(call: Call) -> int:
    with call.store() as store:
        tokens = store.tokens.list()
    if call.json:
        call.document([documents.token(token) for token in tokens])
    elif tokens:
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
        call.lines(columns(call, heads, rows))
    else:
        call.say("no access tokens; make one with: rota token create NAME --scope read")
    return 0


@verb(
    "token revoke",
    "let a token open nothing any more; streams that it opened end",
    "rota token revoke token-1a2b3c4d",
    (Argument("ID", "the token"),),
)
def revoke_token(call: Call) -> int:
    with call.store() as store:
        token = store.tokens.revoke(call["id"])
    if call.json:
        call.document(documents.token(token))
    else:
        call.say(f"{token.id} ({token.name}) is revoked")
    return 0
