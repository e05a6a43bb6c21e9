"""The first minutes: `init`, `run`, and what is said when something is wrong with them."""

from __future__ import annotations

import os
import re
import signal
import socket
from typing import TYPE_CHECKING
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew


class Running:
    """A `rota run` whose lines are read as they come."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self.process: subprocess.Popen[str] = shell.start("run", *words)
        assert self.process.stdout is not None
        self._out = self.process.stdout
        self.lines: list[str] = []

    def until(self, pattern: str) -> str:
        """The first line that has this."""
        while line := self._out.readline():
            self.lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return self.lines[-1]
        raise AssertionError(f"no {pattern!r} in {self.lines}; {self.process.communicate()}")

    def stop(self) -> str:
        """Ctrl-C; what it said from here on."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, ""), (out, err)
        return out


@pytest.fixture
def begun(bare: Shell) -> Iterator[Shell]:
    """A folder as `rota init` leaves it, with a port that nobody else uses."""
    bare.say("init")
    shell = bare.exporting(ROTA_HTTP_PORT="0")
    yield shell
    shell.end()


def test_init_makes_what_run_needs_and_says_what_to_do_next(bare: Shell) -> None:
    told = bare.say("init", "shop").splitlines()
    folder = bare.folder / "shop"
    assert told[:3] == [
        f"made a new database at {folder}/.rota/rota.db",
        "made rota.toml: settings, with the name of your app",
        "made app.py: one task, for you to edit",
    ]
    assert [line.split("#")[0].strip() for line in told[4:]] == [
        "next:", "cd shop", "rota run", "rota add Hello --kind greet",
    ]  # fmt: skip
    assert len((folder / "app.py").read_text().splitlines()) <= 12


def test_init_overwrites_nothing_and_says_what_is_there(bare: Shell) -> None:
    (bare.folder / "app.py").write_text("mine\n")
    told = bare.say("init")
    assert "app.py is there already, and stays as it is: name the App in it in rota.toml" in told
    assert (bare.folder / "app.py").read_text() == "mine\n"
    (bare.folder / "rota.toml").write_text('app = "app:jobs"\n')
    assert 'rota.toml is there already, and stays as it is: see that it says app = "module:name"' in bare.say("init")
    assert (bare.folder / "rota.toml").read_text() == 'app = "app:jobs"\n'


def test_init_leaves_settings_where_a_project_has_them(bare: Shell) -> None:
    (bare.folder / "pyproject.toml").write_text('[tool.rota]\napp = "app:app"\n')
    assert "[tool.rota]" in bare.say("init")
    assert not (bare.folder / "rota.toml").exists()


def test_init_of_a_database_elsewhere_makes_that_alone(bare: Shell) -> None:
    bare.say("init", "--db", "here.db")
    assert not (bare.folder / "app.py").exists()
    bare.say("init", "shop", "--db", str(bare.folder / "here.db"))
    assert (bare.folder / "shop" / "app.py").exists() and not (bare.folder / "shop" / ".rota").exists()


def test_run_shows_the_way_in_does_the_job_and_leaves_at_ctrl_c(begun: Shell) -> None:
    run = Running(begun)
    link = run.until("dashboard").split()[1]
    assert "rota add Hello --kind greet" in run.until("add a job")
    assert "Ctrl-C" in run.until("stop")
    run.until(r"worker:default:\d +is up")
    browser = build_opener(HTTPCookieProcessor())  # the link gives a cookie, and leads to the page
    with browser.open(link, timeout=10) as page:
        assert b"<title>rota" in page.read()
    begun.say("add", "Hello", "--kind", "greet", "--payload", '{"name": "Ada"}')
    assert 'greet (Hello): done, "Hello, Ada!"' in run.until("job 1 ")
    assert "stopped" in run.stop()
    assert begun.ask("orchestrator", "status", code=6)["status"] == "stopped"


def test_run_finds_app_and_database_from_a_folder_below(begun: Shell) -> None:
    (begun.folder / "below").mkdir()
    below = Shell(begun.folder / "below", **begun.env)
    run = Running(below)
    run.until("is up")
    id = begun.add("Hello", "--kind", "greet")
    run.until(f"job {id} .*done")
    run.stop()


def test_a_handler_that_raises_is_shown_with_its_line_and_where_to_read_more(begun: Shell) -> None:
    source = (begun.folder / "app.py").read_text()
    (begun.folder / "app.py").write_text(source.replace("return f", "raise ValueError(name)\n    return f"))
    run = Running(begun)
    run.until("is up")
    id = begun.add("Hello", "--kind", "greet", "--max-attempts", 2)
    line = run.until(f"job {id} ")
    assert "FAILED, ValueError: world (line 10 of app.py, in greet)" in line
    assert "attempt 1 of 2, it is tried again" in line and f"`rota show {id}`" in line
    assert f"attempt 2 of 2, `rota retry {id}` once it is mended" in run.until(f"job {id} ")
    run.stop()


def test_a_job_that_the_app_cannot_do_says_what_it_can(begun: Shell) -> None:
    run = Running(begun)
    run.until("is up")
    begun.add("Hello")
    assert "the job says no task: add it with --kind, one of: greet" in run.until("job 1 ")
    begun.add("Hello", "--kind", "greet", "--payload", '{"nme": "Ada"}', "--max-attempts", 1)
    line = run.until("job 2 ")
    assert "'nme': the members of the payload are its arguments, by name" in line and "handler.py" not in line
    run.stop()


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import numpi\n", "No module named 'numpi' (line 1 of app.py: import numpi)"),
        ("from rota import App\napp = App(\n", "'(' was never closed (line 2 of app.py: app = App()"),
        ("1 / 0\n", "module app cannot be imported: ZeroDivisionError: division by zero (line 1 of app.py: 1 / 0)"),
        ("from rota import App\njobs = App()\n", "app has no App called 'app'; it has 'jobs'"),
        ("import os\nos._exit(3)\n", "importing app:app ended the process with exit code 3"),
        (None, "there is no module 'app' in "),
    ],
)
def test_an_app_that_cannot_be_imported_is_told_in_one_line(begun: Shell, source: str | None, told: str) -> None:
    if source is None:
        (begun.folder / "app.py").unlink()
    else:
        (begun.folder / "app.py").write_text(source)
    assert told in begun.refuse("run", code=1)
    bad = [finding for finding in begun.ask("doctor", code=1) if finding["level"] == "bad"]
    assert [finding["about"] for finding in bad] == ["app"] and told in bad[0]["text"]
    assert begun.ask("orchestrator", "status", code=6)["slots"] == [], "nothing was charged for it"


def test_a_setup_that_fails_ends_run_with_its_words(begun: Shell) -> None:
    with (begun.folder / "app.py").open("a") as app:
        app.write("\n\n@app.setup()\ndef load():\n    raise OSError('no such model')\n")
    answer = begun.call("run")
    assert answer.returncode == 1
    assert answer.stderr.endswith("setup of queue default failed: OSError: no such model\n")
    assert begun.ask("orchestrator", "status", code=6)["status"] == "stopped"


def test_without_an_app_it_says_how_to_get_one(bare: Shell) -> None:
    for words in (["run"], ["orchestrator", "start", "--pool", "tag=1"], ["worker", "start"], ["source", "check", "x"]):
        assert "there is no app to run: `rota init` makes one here" in bare.refuse(*words, code=2)
    assert list(bare.folder.iterdir()) == []


def test_nothing_is_made_for_an_app_that_is_not_there(bare: Shell) -> None:
    assert "there is no module 'nope'" in bare.refuse("run", "--app", "nope:app", code=1)
    assert "shows lines for people" in bare.refuse("run", "--app", "nope:app", "--json", code=2)
    assert list(bare.folder.iterdir()) == []


def test_tasks_that_no_pool_serves_are_named_at_the_start(begun: Shell) -> None:
    with (begun.folder / "app.py").open("a") as app:
        app.write('\n\n@app.task(queue="far")\ndef walk() -> None: ...\n')
    run = Running(begun, "--pool", "far=1")
    assert "rota add Hello --kind walk --queue far" in run.until("add a job")
    assert "queue default has tasks and no pool: `rota scale default=1`" in run.until("not served")
    run.stop()


def test_a_second_run_names_the_first_and_how_to_end_it(begun: Shell) -> None:
    run = Running(begun)
    run.until("is up")
    message = begun.refuse("run", code=4)
    assert f"is running already, pid {run.process.pid}: `rota orchestrator stop` ends it" in message
    assert f"orchestrator {run.process.pid} stopped" in begun.say("orchestrator", "stop")
    run.process.communicate(timeout=60)
    assert run.process.returncode == 0


def test_a_port_that_was_chosen_and_is_taken_is_refused_with_who_has_it(begun: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = begun.refuse("run", "--port", port, code=4)
        assert f"port {port} is taken by another program" in message and "choose another with --port" in message
        found = {each["about"]: each for each in Shell(begun.folder, ROTA_HTTP_PORT=str(port)).ask("doctor")}
        assert found["API"]["level"] == "warn" and f"port {port} is taken by" in found["API"]["text"]


def test_the_usual_port_that_another_crew_has_is_left_to_it(begun: Shell, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    shells = [Shell(begun.folder), Shell(tmp_path / "second")]  # without a port of their own
    shells[1].say("init")
    crews, ports = list[Running](), set[str]()
    try:
        for shell in shells:
            crews.append(Running(shell))
            ports |= set(re.findall(r":(\d+)/", crews[-1].until("dashboard")))
        assert len(ports) == 2, ports
        for crew in crews:
            crew.process.send_signal(signal.SIGINT)
        told = [crew.process.communicate(timeout=60)[1] for crew in crews]
    finally:
        for shell in shells:
            shell.end()
    assert [crew.process.returncode for crew in crews] == [0, 0]
    assert any(re.search(r"port 8356 is taken by another (rota \S+|program)", text) for text in told), told


def test_a_folder_too_high_says_where_the_database_is(bare: Shell) -> None:
    bare.say("init", "shop")
    assert "there is one in shop: `cd shop`" in bare.refuse("list", code=3)
    (finding,) = [each for each in bare.ask("doctor", code=3) if each["level"] == "bad"]
    assert "`cd shop`" in finding["text"]
    told = bare.call("add", "Hello").stderr
    assert "made a new database at " in told and "there is one in shop: `cd shop`, if you meant that" in told


def test_doctor_tells_of_a_crew_that_was_killed_and_of_jobs_that_nobody_will_do(begun: Shell) -> None:
    run = Running(begun)
    run.until("dashboard")
    run.until("is up")
    found = {each["about"]: each["text"] for each in begun.ask("doctor")}
    assert f"running, pid {run.process.pid}" == found["orchestrator"] and found["API"].startswith("answers at http")
    begun.say("pause")
    begun.add("Hello", "--queue", "other")
    begun.add("Hello", "--kind", "gret")
    warned = [each["text"] for each in begun.ask("doctor") if each["level"] == "warn"]
    assert "1 job waits of kind gret, which app:app does not have" in warned
    assert "1 job waits without a kind, which no task runs" in warned
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.communicate()
    status = begun.ask("orchestrator", "status", code=6)
    assert status["status"] == "stopped" and [each["status"] for each in status["orchestrators"]] == ["killed"]
    begun.say("resume")
    # Its lease and, because nobody else has renewed one meanwhile, the grace after it: half a minute.
    eventually(lambda: begun.ask("reconcile") and "no worker serves it" in str(begun.ask("doctor")), within=90)
    warned = [f"{each['text']}; {each['mend']}" for each in begun.ask("doctor") if each["level"] == "warn"]
    assert any("it was killed, and did not leave in order; `rota run` takes over" in text for text in warned)
    assert any("1 job waits in other, and no worker serves it; `rota run`" in text for text in warned)


def test_doctor_says_which_setting_is_wrong_and_which_slot_failed(begun: Shell) -> None:
    (begun.folder / "rota.toml").write_text("leese = 3\n")
    (finding,) = begun.ask("doctor", code=1)
    assert finding["about"] == "settings" and "unknown setting 'leese'" in finding["text"]
    (begun.folder / "rota.toml").write_text('app = "app:app"\nrestart_limit = 1\nrestart_backoff = "1ms"\n')
    with (begun.folder / "app.py").open("a") as app:
        app.write("\n\n@app.setup()\ndef load():\n    raise OSError('no such model')\n")
    for _ in range(2):
        begun.call("orchestrator", "start", "--daemon", "--no-http")
    warned = [each for each in begun.ask("doctor") if each["about"] == "slots"]
    assert warned and warned[0]["mend"] == "`rota reset worker:default:0`"
