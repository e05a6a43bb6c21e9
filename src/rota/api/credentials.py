"""Files beside the database for programs on this machine: the server's admin token and its address, both 0600."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.access import ADMIN, LOCAL
from rota.core.errors import NotFound, StoreError
from rota.store.open import POSTGRES
from rota.store.own_files import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.access import AccessToken
    from rota.store.store import Store


def local_token(store: Store) -> tuple[AccessToken, str]:
    """Return the admin token of the file beside the database. A missing or revoked one is replaced."""
    path = f"{store.database.beside}.token"
    secret = _read(path)
    token = store.tokens.prove(secret) if secret else None
    if token is not None and secret is not None:
        return token, secret
    name = _name(store)
    for old in store.tokens.list():
        if old.name == name and old.revoked_at is None:
            store.tokens.revoke(old.id)
    token, secret = store.tokens.create(name, [ADMIN])
    _write(path, secret)
    return token, secret


def _name(store: Store) -> str:
    """Return the name of the token. On PostgreSQL it names the host, because each host may run a server."""
    return f"{LOCAL}@{os.uname().nodename}" if store.database.url.startswith(POSTGRES) else LOCAL


def local_secret(path: str) -> str:
    """Return the secret of the admin token beside this database."""
    secret = _read(f"{path}.token")
    if secret is None:
        raise NotFound("the HTTP API has never run here: start it with `rota serve`")
    return secret


def local_address(path: str) -> str:
    """Return the address of the running server of this database.

    The address of a killed server is not returned: another program may listen there by now and receive the secret.
    """
    url = _read(f"{path}.http", if_locked=True)
    if url is None:
        raise NotFound("the HTTP API is not running here: start it with `rota serve`")
    return url


@contextmanager
def address_file(path: str, url: str) -> Iterator[None]:
    """Keep a file with the server's address, locked while the server runs."""
    file = f"{path}.http"
    _write(file, url)
    descriptor = open_own(file, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
        if _read(file) == url:
            os.unlink(file)


def _read(path: str, if_locked: bool = False) -> str | None:
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise StoreError(f"{path} cannot be read: {problem.strerror}") from None
    with open(descriptor, encoding="ascii", errors="replace") as file:
        if if_locked and not _is_locked(file.fileno()):
            return None
        return file.read(1000).strip()


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _write(path: str, text: str) -> None:
    """Write a file atomically, readable by its owner alone."""
    temporary = f"{path}.new-{os.urandom(8).hex()}"
    with open(open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
