"""Networks for tests: kernel namespaces, joined by links that can be cut. Fails where namespaces are not allowed."""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000


class Network:
    """A network around the calling thread, with hosts that are linked to it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._hosts: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Add a host with a link of its own. Returns the address at which it finds this end."""
        namespace = _new_namespace()
        self._stack.callback(os.close, namespace)
        number = len(self._hosts) + 1
        self._hosts[name] = namespace
        _ip(
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            "uplink",
            "netns",
            f"/proc/{os.getpid()}/fd/{namespace}",
        )
        _ip("address", "add", f"10.77.{number}.1/24", "dev", name)
        _ip("link", "set", name, "up")
        with self.on(name):
            _ip("address", "add", f"10.77.{number}.2/24", "dev", "uplink")
            for link in ("lo", "uplink"):
                _ip("link", "set", link, "up")
        return f"10.77.{number}.1"

    def cut(self, name: str) -> None:
        """Drop everything from now on, without telling either side."""
        _ip("link", "set", name, "down")

    def heal(self, name: str) -> None:
        _ip("link", "set", name, "up")

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Start everything in this block on that host."""
        with _inside(self._hosts[name]):
            yield


@contextmanager
def network() -> Iterator[Network]:
    """Move this thread into a new, empty network for the length of the block."""
    with ExitStack() as stack:
        here = _new_namespace()
        stack.callback(os.close, here)
        stack.enter_context(_inside(here))
        _ip("link", "set", "lo", "up")
        yield Network(stack)


def _new_namespace() -> int:
    """Return a descriptor of a new namespace, which lasts as long as the descriptor or a process in it."""
    with _back_afterwards():
        _call("unshare", _CLONE_NEWNET)
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _inside(namespace: int) -> Iterator[None]:
    with _back_afterwards():
        _call("setns", namespace, _CLONE_NEWNET)
        yield


@contextmanager
def _back_afterwards() -> Iterator[None]:
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _call("setns", home, _CLONE_NEWNET)
        os.close(home)


def _call(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        why = os.strerror(ctypes.get_errno())
        raise RuntimeError(f"this test needs network namespaces, and {name} failed: {why}. Run it as root")


def _ip(*words: str) -> None:
    ran = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"ip {' '.join(words)}: {ran.stderr}"
