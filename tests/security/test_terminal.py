"""What the command line prints, as a terminal understands it: nothing that a job or a worker holds can steer one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyte
import pytest

from rota.cli.table import COMMANDS
from rota.settings import Settings
from rota.store.open import open_store
from tests.cli.test_output import on_terminal
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A title, a cleared screen, a moved cursor, a report that types for the user, a bell, colours, modes, an 8-bit form.
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[5;5H\x1b[6n\x1b[c\x1b[31mred\x1b[?1049h\x1b[?25l\x1bc\x9b2J\x9d0;owned\x9c"
    "\x07\x08\x0e\x1bP+q\x1b\\\x1b[20hend"
)
HARMLESS = {"draw", "linefeed", "carriage_return"}
# What each command that shows something is called with. Those that show nothing of the store's are named below.
SHOWING: dict[str, list[str]] = {
    "ready": ["ready"],
    "show": ["show", "1"],
    "runs": ["runs", "1"],
    "logs": ["logs", "1"],
    "list": ["list"],
    "why": ["why", "2"],
    "results": ["results", "2"],
    "worker list": ["worker", "list", "--all"],
    "worker status": ["worker", "status"],
    "queue list": ["queue", "list"],
    "source list": ["source", "list"],
    "schedule list": ["schedule", "list"],
    "schedule show": ["schedule", "show", "nightly"],
    "token list": ["token", "list"],
    "events": ["events"],
    "doctor": ["doctor"],
    "orchestrator status": ["orchestrator", "status"],
    "reconcile": ["reconcile", "--plan"],
    "add": ["add", HOSTILE],
    "block": ["block", "2", "3"],
    "unblock": ["unblock", "2", "3"],
    "cancel": ["cancel", "3"],
    "retry": ["retry", "1"],
    "pause": ["pause", "default", "--reason", HOSTILE],
    "resume": ["resume", HOSTILE],
    "queue set": ["queue", "set", HOSTILE, "--rate", "1/m"],
    "claim": ["claim", HOSTILE],
    "claim:release": ["claim:release", "2", HOSTILE],
    "claim:renew": ["claim:renew", "2", HOSTILE],
    "done": ["done", HOSTILE],
    "fail": ["fail", "3", "--error", HOSTILE],
    "snooze": ["snooze", "3", "--for", HOSTILE],
    "wait": ["wait", "1", "--for", "final", "--timeout", "1s"],
    "worker register": ["worker", "register", "--name", HOSTILE],
    "worker heartbeat": ["worker", "heartbeat", HOSTILE],
    "worker deregister": ["worker", "deregister", HOSTILE],
    "worker stop": ["worker", "stop", HOSTILE],
    "scale": ["scale", HOSTILE],
    "reset": ["reset", HOSTILE],
    "drain": ["drain"],
    "source check": ["source", "check", HOSTILE],
    "source forget": ["source", "forget", HOSTILE],
    "schedule add": ["schedule", "add", HOSTILE, "--cron", HOSTILE],
    "schedule pause": ["schedule", "pause", "nightly", "--reason", HOSTILE],
    "schedule resume": ["schedule", "resume", HOSTILE],
    "schedule run": ["schedule", "run", HOSTILE],
    "schedule remove": ["schedule", "remove", HOSTILE],
    "token create": ["token", "create", HOSTILE],
    "token revoke": ["token", "revoke", HOSTILE],
    "open": ["open"],
    "prune": ["prune", "--older", HOSTILE],
    "migrate": ["migrate"],
    "init": ["init", HOSTILE],
    "orchestrator stop": ["orchestrator", "stop"],
    "help": ["help", HOSTILE],
}
# A screen of its own, which tests/top plays; programs that run on; a database that is not this one; texts of our own.
ELSEWHERE = {
    "top", "run", "serve", "mcp", "demo", "chaos", "bench", "completion", "orchestrator start", "worker start",
    "worker exec", "tracking install", "tracking uninstall", "tracking status", "tracking prune",
}  # fmt: skip


class Watched(pyte.Screen):
    """A terminal that remembers what it was made to do."""

    def __init__(self) -> None:
        super().__init__(200, 50)
        self.called: set[str] = set()
        self._inner = False
        for name in pyte.Stream.events:
            setattr(self, name, self._watched(name))

    def _watched(self, name: str) -> Callable[..., Any]:
        does = getattr(self, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            """What it does by itself to do this is not told of."""
            inner, self._inner = self._inner, True
            if not inner:
                self.called.add(name)
            try:
                return does(*args, **kwargs)
            finally:
                self._inner = inner

        return watched


def understood(text: str) -> set[str]:
    """What a terminal does when it is sent this, besides showing letters line by line."""
    screen = Watched()
    pyte.Stream(screen).feed(text)
    assert screen.title == screen.icon_name == ""
    return screen.called - HARMLESS


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A store in which everything that may hold text holds the same."""
    made = Shell(tmp_path_factory.mktemp("hostile"))
    made.say("init")
    fill(made)
    yield made
    made.end()


def fill(shell: Shell) -> None:
    told: list[str | int] = [
        "--kind",
        HOSTILE,
        "--payload",
        f'{{"a": "{HOSTILE.encode("unicode_escape").decode()}"}}'.replace("\\x", "\\u00"),
    ]
    id = shell.add(HOSTILE, *told, "--key", HOSTILE, "--max-attempts", 1)
    worker = shell.register(HOSTILE)
    written = shell.folder / "written"
    written.write_text(HOSTILE)
    with open_store(str(shell.path), Settings()) as store:
        store.claims.capture(store.claims.claim(id, worker), str(written), str(written))
        store.workers.heartbeat(worker, {"progress": HOSTILE, HOSTILE: HOSTILE})
    shell.say("fail", id, "--error", HOSTILE, "--force")
    shell.say("add", HOSTILE, "--after", id)
    shell.say("add", HOSTILE)
    shell.say("schedule", "add", "nightly", "--cron", "0 2 * * *", "--kind", HOSTILE)
    shell.say("schedule", "pause", "nightly", "--reason", HOSTILE)
    shell.say("pause", "default", "--reason", HOSTILE)


def test_the_watched_terminal_sees_what_steers_it() -> None:
    screen = Watched()
    pyte.Stream(screen).feed(HOSTILE)
    assert screen.title == "owned" or "reset" in screen.called
    assert {"erase_in_display", "cursor_position", "report_device_status", "bell", "set_mode"} <= screen.called


def test_every_command_is_here_or_elsewhere() -> None:
    assert {command.name for command in COMMANDS} == SHOWING.keys() | ELSEWHERE
    assert not SHOWING.keys() & ELSEWHERE


@pytest.mark.parametrize("command", SHOWING)
def test_nothing_that_it_prints_steers_a_terminal(command: str, shell: Shell) -> None:
    printed = on_terminal(shell, *SHOWING[command], NO_COLOR="1")
    assert printed.strip() and understood(printed) == set(), printed
    assert "Traceback" not in printed
