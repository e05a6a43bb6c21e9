"""Where a benchmark's stores are: files in a folder, or schemas on a server that waits for the disk."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from tests.support.postgres import server

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator

    Fresh = Callable[[], str]

KINDS = ("sqlite", "postgres")


def add_option(parser: ArgumentParser) -> None:
    parser.add_argument("--store", choices=KINDS, default="sqlite", help="which database to measure")


@contextmanager
def stores(kind: str) -> Iterator[Fresh]:
    """Something that names a place for a new store each time it is called; all are gone afterwards."""
    numbers = count()
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
            yield lambda: os.path.join(folder, f"{next(numbers)}.db")
    else:
        with server(durable=True) as found, found.database() as url:
            yield lambda: f"{url}?schema=bench_{next(numbers)}"
