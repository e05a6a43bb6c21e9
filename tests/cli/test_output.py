"""What reaches a terminal and a pipe: colour only on the former, nothing that steers it, one document with --json."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import termios
from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from tests.support.shell import Shell

NASTY = "\x1b[31mred\x1b[0m \x07bell \x9b2J \u202eright-to-left\rreturn"


def on_terminal(shell: Shell, *words: str | int, width: int = 80, **env: str) -> str:
    """What a call prints on a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    given = environment(TERM="xterm", **shell.env, **env)
    command = [ROTA, *map(str, words)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=shell.folder, env=given, stdin=nothing, stdout=theirs, stderr=theirs):
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # the end of a terminal that nobody writes to any more
            pass
        finally:
            os.close(ours)
    return text.decode()


def test_colour_is_for_terminals_that_want_it(shell: Shell) -> None:
    shell.add()
    assert "\x1b[36mready\x1b[0m" in on_terminal(shell, "list")
    assert "\x1b" not in on_terminal(shell, "list", NO_COLOR="1")
    assert "\x1b" not in shell.say("list")
    assert "\x1b" not in on_terminal(shell, "list", "--json")


def test_a_table_fits_the_terminal(shell: Shell) -> None:
    shell.add("a title that goes on " * 20)
    lines = on_terminal(shell, "list", NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 80 and lines[1].endswith("…")
    assert "goes on a title" in shell.say("list")


def test_prune_shows_how_far_it_is_on_a_terminal_only(shell: Shell) -> None:
    shell.say("done", shell.add(), "--force")
    assert "forgetting … 1 jobs" in on_terminal(shell, "prune", "--keep", 0)
    shell.say("done", shell.add(), "--force")
    assert shell.call("prune", "--keep", 0).stderr == ""


def test_nothing_that_a_job_holds_steers_a_terminal(shell: Shell) -> None:
    id = shell.add(
        NASTY, "--payload", json.dumps({"a": NASTY}, ensure_ascii=False), "--kind", NASTY, "--max-attempts", 1
    )
    worker = shell.register(NASTY)
    printed = [shell.say("ready"), shell.say("ready", "--claim", worker), shell.say("worker", "list")]
    shell.say("fail", id, "--error", NASTY)
    shell.say("pause", "default", "--reason", NASTY)
    for words in (["list"], ["show", id], ["runs", id], ["why", id], ["events"], ["queue", "list"], ["doctor"]):
        printed.append(shell.say(*map(str, words)))
    printed.append(shell.say("worker", "status", worker))
    printed.append(shell.refuse("show", NASTY, code=2))
    printed.append(shell.refuse(NASTY, code=2))
    printed.append(shell.refuse("list", f"--{NASTY}", code=2))
    for text in printed:
        assert all(c.isprintable() or c == "\n" for c in text), text
    assert "red" in printed[0]
    assert shell.ask("show", id)["title"] == NASTY, "programs get it as it is"


def test_text_of_any_language_survives(shell: Shell) -> None:
    title = "Übergröße 日本語 🎧"
    id = shell.add(title)
    for env in ({"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}):
        assert shell.exporting(**env).ask("show", id)["title"] == title
        assert shell.exporting(**env).call("show", id).returncode == 0
    assert title in shell.say("show", id)


def test_a_terminal_of_few_letters_gets_json_in_those_that_all_have(shell: Shell) -> None:
    """In UTF-8 the second byte of ś is what such a terminal takes for the begin of a command."""
    title = "ś 日本語 \x9b2J"
    shell.add(title)
    printed = on_terminal(shell, "show", 1, "--json", PYTHONIOENCODING="latin-1")
    assert printed.isascii() and json.loads(printed)["title"] == title


def test_json_is_one_document_even_when_a_database_is_made(bare: Shell) -> None:
    answer = bare.call("add", "A", "--json")
    assert json.loads(answer.stdout)["id"] == 1 and answer.stdout.count("\n") == 1
    assert "made a new database" in answer.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of(shell: Shell) -> None:
    for _ in range(3):
        shell.add("x" * 900)
    script = f"'{ROTA}' list --limit 1000 | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    answer = subprocess.run(
        ["bash", "-c", script], cwd=shell.folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert answer.stderr == ""


def test_an_answer_that_cannot_be_written_is_a_failure(shell: Shell) -> None:
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [ROTA, "list"],
            cwd=shell.folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert answer.returncode == 1
    assert answer.stderr == "rota: the answer could not be written: No space left on device\n"


def test_an_interrupt_ends_quietly(shell: Shell) -> None:
    shell.add()
    waiting = shell.start("wait", 1)
    eventually(lambda: listens(waiting.pid))
    waiting.send_signal(2)
    out, error = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, error) == (130, "", "")


def listens(pid: int) -> bool:
    """Whether a process has come so far that it waits for the bell."""
    try:
        folder = f"/proc/{pid}/fd"
        return any("inotify" in os.readlink(f"{folder}/{name}") for name in os.listdir(folder))
    except FileNotFoundError:  # a descriptor was closed while we looked
        return False


def test_a_bug_is_one_line_unless_it_is_being_debugged(shell: Shell) -> None:
    broken = [ROTA, "show", "1"]
    shell.add()
    spoil = shell.folder / "sitecustomize.py"
    spoil.write_text("import rota.documents\nrota.documents.job = None\n")
    env = environment(PYTHONPATH=f"{shell.folder}:{os.environ.get('PYTHONPATH', '')}")
    plain = subprocess.run([*broken, "--json"], cwd=shell.folder, env=env, capture_output=True, text=True, check=False)
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (1, "", 1)
    assert plain.stderr.startswith("rota: a bug in rota, please report it with the output of ROTA_DEBUG=1: TypeError")
    env["ROTA_DEBUG"] = "1"
    loud = subprocess.run([*broken, "--json"], cwd=shell.folder, env=env, capture_output=True, text=True, check=False)
    assert loud.returncode == 1 and "Traceback" in loud.stderr


def test_closed_output_is_no_bug(shell: Shell) -> None:
    shell.add()
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        script = f"'{ROTA}' list {closed}"
        answer = subprocess.run(
            ["bash", "-c", script], cwd=shell.folder, env=environment(), capture_output=True, text=True, check=False
        )
        assert (answer.returncode, answer.stderr) == (0, "")
