"""What the server leaves beside the database for people on this machine: the admin token and its address, 0600 both."""

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
    """The admin token in the file beside the database, made at the first start; one that is lost is replaced."""
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
    """What this host's is called: a server's database may have an API on each of several hosts."""
    return f"{LOCAL}@{os.uname().nodename}" if store.database.url.startswith(POSTGRES) else LOCAL


def local_secret(path: str) -> str:
    """The secret that the server keeps beside this database."""
    secret = _read(f"{path}.token")
    if secret is None:
        raise NotFound("the HTTP API has never run here: start it with `rota serve`")
    return secret


def local_address(path: str) -> str:
    """Where the server of this database answers.

    Not where one that was killed has answered: by now anybody may listen there, waiting for a secret.
    """
    url = _read(f"{path}.http", if_locked=True)
    if url is None:
        raise NotFound("the HTTP API is not running here: start it with `rota serve`")
    return url


@contextmanager
def address_file(path: str, url: str) -> Iterator[None]:
    """A file that says where the server answers, locked for as long as it does."""
    place = f"{path}.http"
    _write(place, url)
    descriptor = open_own(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
        if _read(place) == url:
            os.unlink(place)


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
    """Put a file in place whole, readable by its owner alone."""
    aside = f"{path}.new-{os.urandom(8).hex()}"
    with open(open_own(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
