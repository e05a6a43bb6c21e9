"""What the command line prints, as a terminal understands it: nothing that a job or a worker holds can steer one."""

from __future__ import annotations

import json
import re
import shutil
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import pyte
import pytest

from rota.cli.verbs import all_verbs
from rota.core.claim import Done, Failed, Snoozed
from rota.core.job import NewJob
from rota.core.schedule import NewSchedule
from rota.core.slot import RestartPolicy
from rota.core.source import Declared
from rota.core.times import SECOND
from rota.process.host import host_id
from rota.settings import Settings
from rota.store.claims.exchange import Report
from rota.store.open import open_store
from rota.store.workers.death import Death
from tests.cli.test_output import on_terminal
from tests.support.shell import Shell
from tests.support.work import Crew
from tests.top.test_terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A title, a cleared screen, a moved cursor, a report that types for the user, a bell, colours, modes, 8-bit forms, a
# deleted letter, lines and letters that run the other way, and a tag that no terminal has a letter for.
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[5;5H\x1b[6n\x1b[c\x1b[35mred\x1b[?1049h\x1b[?25l\x1bc\x9b2J\x9d0;owned\x9c\x85"
    "\x07\x08\x0e\x1bP+q\x1b\\\x1b[20h\x7f\u2028\u202e\U000e0001end"
)
HARMLESS = {"draw", "linefeed", "carriage_return"}
COLOURS = re.compile(r"\x1b\[(?:0|1|2|31|32|33|36)m")
WIDE = 5000  # nothing is cut off


def hostile(what: str) -> str:
    """The same in every place, with a word that tells where it was put."""
    return f"~{what}~{HOSTILE}"


# Every column of text, by table: the first are given hostile text, the others hold names that a pattern checks, words
# of a closed set, or what no command shows.
PLANTED: dict[str, tuple[str, str]] = {
    "boot": ("", "id"),
    "certificate": ("text sent_by last_frame stderr_tail", "worker slot reason usage"),
    "event": ("actor facts", ""),
    "job": (
        "title kind key limit_key payload result checkpoint error note trace",
        "queue status blocked_on source schedule worker transcript_path stderr_path captured_by",
    ),
    "metric": ("", "name queue label"),
    "metric_mark": ("", "open_tokens"),
    "migration": ("", "name"),
    "number": ("", "name"),
    "orchestrator": ("crew hostname version", "access desired host nonce pools settings status worker_ids"),
    "queue": ("pause_reason paused_by", "name rate fence"),
    "run": ("error note", "reason verb worker transcript_path stderr_path captured_by"),
    "schedule": ("kind payload error pause_reason", "name cron timezone missed queue access"),
    "slot": ("crew failure_reason health", "name queue host status worker restarts"),
    "source": (
        "task last_error_message last_error_worker last_fill_error last_repeated_key last_success_worker",
        "name queue",
    ),
    "source_memory": ("", "source"),
    "tally": ("", "queue status"),
    "token": ("name created_by", "id scopes hash"),
    "worker": (
        "name hostname version last_error_message metadata",
        "id status desired slot queue host nonce access kinds",
    ),
}
IN_JSON = {"job.payload", "job.result", "job.checkpoint", "schedule.payload", "worker.metadata"}

# A source of the user's own, whose keys are hostile.
SHOP = """
import rota

app = rota.App()


@app.source(queue="tag", task="tag")
def files():
    yield {key!r}, {{"path": {key!r}}}
"""
# What each command that shows something is called with, and where that comes from which it shows as text and as JSON.
# HOSTILE, LIVING and DEAD stand for such a text and for the workers of these kinds. A call that is refused says so on
# stderr, whichever way. Commands that show nothing of the store's are named below.
REFUSED = ("said", "said")
JOB = "job.title job.kind job.payload job.note"
OVER = f"{JOB} job.result job.error"
WORKER = "worker.name worker.hostname worker.version worker.last_error_message worker.metadata"
DEATH = "certificate.text certificate.sent_by certificate.last_frame certificate.stderr_tail"
QUEUE = "queue.pause_reason queue.paused_by"
SOURCE = (
    "source.task source.last_error_message source.last_error_worker source.last_fill_error source.last_repeated_key"
)
SCHEDULE = "schedule.kind schedule.payload schedule.error schedule.pause_reason"
SHOWING: dict[str, tuple[str, str]] = {
    "ready": ("job.title", OVER),
    "ready --claim LIVING": ("job.title", OVER),
    "show 1": (
        "job.title job.kind job.payload job.key job.limit_key job.result job.error job.note run.error",
        OVER,
    ),
    "runs 1": ("run.error", "run.error run.note"),
    "logs 1": ("written", "written"),
    "list": ("job.title", OVER),
    "why 1": ("job.error", "job.error"),
    "why 4": ("", ""),
    "why worker:default:0": ("slot.failure_reason", "slot.failure_reason"),
    "results 4": ("job.title job.result", "job.title job.result job.error"),
    "worker list --all": ("worker.name worker.hostname", WORKER),
    "worker status": ("", ""),
    "worker status LIVING": (WORKER, WORKER),
    "worker status DEAD": (
        f"{WORKER} certificate.text certificate.last_frame certificate.stderr_tail",
        f"{WORKER} {DEATH}",
    ),
    "queue list": (QUEUE, QUEUE),
    "source list": (SOURCE, f"{SOURCE} source.last_success_worker"),
    "schedule list": ("schedule.kind schedule.error", SCHEDULE),
    "schedule show nightly": (SCHEDULE, SCHEDULE),
    "token list": ("token.name", "token.name token.created_by"),
    "events": ("event.actor event.facts", "event.actor event.facts"),
    "doctor": (f"{QUEUE} job.kind job.error slot.failure_reason", f"{QUEUE} job.kind job.error slot.failure_reason"),
    "orchestrator status": (
        "orchestrator.hostname orchestrator.crew slot.failure_reason slot.health",
        "orchestrator.hostname orchestrator.crew orchestrator.version slot.crew slot.failure_reason slot.health",
    ),
    "reconcile --plan": ("", ""),
    "add HOSTILE": ("", "said"),
    "block 5 4": ("", OVER),
    "unblock 4 1": ("", OVER),
    "cancel 5": ("", JOB),
    "retry 1": ("", JOB),
    "pause default --reason HOSTILE": ("", ""),
    "resume HOSTILE": REFUSED,
    "queue set HOSTILE --rate 1/m": REFUSED,
    "queue set default --rate 1/m": ("", QUEUE),
    "claim HOSTILE": REFUSED,
    "claim:release 5 HOSTILE": REFUSED,
    "claim:renew 5 HOSTILE": REFUSED,
    "done HOSTILE": REFUSED,
    "done 5 --force": ("", JOB),
    "fail 5 --error HOSTILE --force": ("", f"{JOB} said"),
    "snooze 5 --for HOSTILE": REFUSED,
    "wait 1 --for final": ("", OVER),
    "worker register --name HOSTILE": ("", "said"),
    "worker heartbeat HOSTILE": REFUSED,
    "worker deregister HOSTILE": REFUSED,
    "worker stop HOSTILE": REFUSED,
    "worker stop LIVING": ("", WORKER),
    "scale HOSTILE": REFUSED,
    "reset HOSTILE": REFUSED,
    "drain --crew HOSTILE": REFUSED,
    "source check files --app shop:app": ("found", "found"),
    "source check HOSTILE --app shop:app": REFUSED,
    "source forget HOSTILE": REFUSED,
    "schedule add HOSTILE --cron HOSTILE": REFUSED,
    "schedule pause nightly --reason HOSTILE": ("", SCHEDULE),
    "schedule resume nightly": ("", "schedule.kind schedule.payload"),
    "schedule run nightly": ("", "schedule.kind schedule.payload"),
    "schedule remove HOSTILE": REFUSED,
    "token create HOSTILE --scope read": REFUSED,
    "token revoke TOKEN": ("token.name", "token.name token.created_by"),
    "open": ("", ""),
    "prune --older HOSTILE": REFUSED,
    "migrate": ("", ""),
    "init HOSTILE": REFUSED,
    "orchestrator stop": ("", ""),
    "help HOSTILE": REFUSED,
    "top": (
        f"{QUEUE} job.error certificate.text orchestrator.hostname slot.failure_reason worker.name worker.hostname",
        f"{QUEUE} job.error {DEATH} orchestrator.hostname slot.crew slot.failure_reason slot.health",
    ),
}
# Programs that run on; a database that is not this one; texts of our own. `top` that draws is played in tests/top.
ELSEWHERE = {
    "run", "serve", "mcp", "demo", "chaos", "bench", "completion", "orchestrator start", "worker start",
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


class Filled(NamedTuple):
    """A folder with a store, and what its calls are made with."""

    folder: Path
    names: dict[str, str]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A store in which everything that may hold text holds the same."""
    shell = Shell(tmp_path_factory.mktemp("hostile"))
    shell.say("init")
    (shell.folder / "shop.py").write_text(SHOP.format(key=hostile("found")))
    names = fill(shell)
    plant(shell.path)
    return Filled(shell.folder, {**names, "HOSTILE": hostile("said")})


@pytest.fixture
def shell(filled: Filled, tmp_path: Path) -> Shell:
    """A copy for each call: what one changes is not shown to another."""
    return Shell(shutil.copytree(filled.folder, tmp_path / "copy"))


def fill(shell: Shell) -> dict[str, str]:
    """A row of everything: jobs that failed, are done, sleep, wait and are ready, and who works on them."""
    written = shell.folder / "written"
    written.write_text(hostile("written"))
    with open_store(str(shell.path), Settings()) as store:
        failed, done, asleep = (store.jobs.add(NewJob("a", max_attempts=1)).id for _ in range(3))
        living = store.workers.register("living").id
        claim = store.claims.claim(failed, living)
        store.claims.capture(claim, str(written), str(written))
        store.claims.settle(claim, Failed("e"))
        store.claims.settle(store.claims.claim(done, living), Done("1"))
        store.claims.settle(store.claims.claim(asleep, living), Snoozed(3600 * SECOND, "n"))
        store.jobs.add(NewJob("a", after=[failed, done]))
        store.jobs.add(NewJob("a", queue="open"))
        store.sources.declare([Declared("files", "tag", "tag", SECOND, 2, 5, 3)])
        store.slots.take("main", host_id(), {"default": 1})
        (dead,) = Crew(store).workers
        store.orchestrators.record_death(Death(dead, "worker:default:0", "exit", "t"), Report([], []), RestartPolicy())
        token, _ = store.tokens.create("person", ["read"])
        store.schedules.add(NewSchedule("nightly", "0 2 * * *"))
        store.schedules.pause("nightly")
        store.queues.pause("default")
    return {"LIVING": living, "DEAD": dead, "TOKEN": token.id}


def plant(path: Path) -> None:
    """Let all of it hold hostile text; the slot is given up, and who lives does so however long the calls take."""
    with closing(apsw.Connection(str(path))) as connection:
        for table, (columns, _) in PLANTED.items():
            for column in columns.split():
                text = hostile(f"{table}.{column}")
                if f"{table}.{column}" in IN_JSON:
                    text = json.dumps({"a": text}, ensure_ascii=False)
                elif column == "facts":
                    text = json.dumps([["queue", "pause", "default", {"reason": text}]], ensure_ascii=False)
                where = "WHERE id = 1" if column == "key" else ""
                connection.execute(f"UPDATE {table} SET {column} = ? {where}", (text,))
        connection.execute("UPDATE source SET repeated_count = 1")
        connection.execute("UPDATE slot SET status = 'failed', failed_at = 1")
        connection.execute("UPDATE worker SET check_at = ? WHERE check_at IS NOT NULL", (1 << 60,))
        connection.execute(
            "UPDATE orchestrator SET lease_expires_at = ?, acknowledged_directive = ?", (1 << 60, 1 << 40)
        )


def test_the_watched_terminal_sees_what_steers_it() -> None:
    screen = Watched()
    pyte.Stream(screen).feed(HOSTILE)
    assert screen.title == "owned" or "reset" in screen.called
    assert {"erase_in_display", "cursor_position", "report_device_status", "bell", "set_mode"} <= screen.called


def test_every_command_is_here_or_elsewhere() -> None:
    names = {verb.name for verb in all_verbs()}
    shown = {
        next(name for name in sorted(names, reverse=True) if f"{call} ".startswith(f"{name} ")) for call in SHOWING
    }
    assert names == shown | ELSEWHERE
    assert not shown & ELSEWHERE


def test_every_text_of_the_store_is_planted_or_cannot_be_hostile(shell: Shell) -> None:
    with closing(apsw.Connection(str(shell.path))) as connection:
        found = connection.execute(
            "SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c "
            "WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND c.type = 'TEXT'"
        ).fetchall()
    known = [(table, column) for table, both in PLANTED.items() for column in " ".join(both).split()]
    assert sorted(found) == sorted(known)


def shown(filled: Filled, shell: Shell, call: str, *more: str, **env: str) -> str:
    """What a call prints where nothing is cut off."""
    words = [filled.names.get(word, word) for word in call.split()]
    printed = on_terminal(shell, *words, *more, width=WIDE, **env)
    assert printed.strip() and "Traceback" not in printed and "a bug in rota" not in printed, printed
    return printed


def is_harmless(printed: str) -> bool:
    """Whether it is letters and lines, to a terminal and to whoever reads them."""
    return not understood(printed) and all(letter.isprintable() or letter in "\r\n" for letter in printed)


def marks(text: str) -> set[str]:
    return set(re.findall(r"~([a-z_.]+)~", text))


def texts(value: Any) -> str:
    """All that a document says, names and values."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return "\n".join(map(texts, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("call", SHOWING)
def test_nothing_that_it_prints_steers_a_terminal(call: str, filled: Filled, shell: Shell) -> None:
    coloured = shown(filled, shell, call)
    plain = COLOURS.sub("", coloured)
    assert is_harmless(plain), plain
    assert "[1m" not in plain, "a colour of our own that was taken for somebody else's"
    assert marks(plain) == set(SHOWING[call][0].split())
    if plain != coloured:
        assert is_harmless(shown(filled, shell, call, NO_COLOR="1"))


@pytest.mark.parametrize("call", [call for call, told in SHOWING.items() if told != REFUSED])
def test_a_document_on_a_terminal_is_whole_and_steers_none(call: str, filled: Filled, shell: Shell) -> None:
    printed = shown(filled, shell, call, "--json")
    assert is_harmless(printed), printed
    if printed.startswith("rota: "):
        assert SHOWING[call] == ("", "")
        return
    said, wanted = texts(json.loads(printed)), set(SHOWING[call][1].split())
    assert marks(said) == wanted
    assert all(hostile(mark) in said for mark in wanted), "every letter of it"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_what_is_followed_steers_no_terminal(form: list[str], shell: Shell) -> None:
    with terminal(shell.folder, "events", "--follow", "--after", "0", *form, NO_COLOR="1") as following:
        following.says("~worker.name~")
        following.process.send_signal(signal.SIGINT)
        assert following.wait() == 130
        printed = following.read().decode()
    assert is_harmless(printed), printed
    assert not form or all(json.loads(line) for line in printed.splitlines())
