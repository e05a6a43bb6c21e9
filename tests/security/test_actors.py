"""Every action of a person stands in the event log with who did it: each command and route that changes something."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from rota.api.app import ROUTES
from rota.cli.verbs import all_verbs
from rota.core.access import ADMIN, ENQUEUE
from rota.core.event import to_stored
from rota.core.job import NewJob
from rota.core.schedule import NewSchedule
from rota.core.source import Declared
from rota.process.host import host_id
from rota.settings import Settings
from rota.store.open import open_store
from tests.api.servers import Server
from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

# What changes the store: its words, with `{job}` for a job and so on, and the fact that it must leave.
ACTIONS: dict[str, tuple[str, str]] = {
    "add": ("add B", "job add"),
    "block": ("block {job} {other}", "job block"),
    "unblock": ("unblock {waiting} {other}", "job unblock"),
    "done": ("done {job} --force", "job force"),
    "fail": ("fail {job} --error x --force", "job force"),
    "snooze": ("snooze {held} --for 1m", "job snooze"),
    "cancel": ("cancel {job}", "job cancel"),
    "retry": ("retry {over}", "job retry"),
    "ready": ("ready --claim", "job claim"),
    "claim": ("claim {job}", "job claim"),
    "claim:renew": ("claim:renew {held} {worker}", "job renew"),
    "claim:release": ("claim:release {held} {worker}", "job release"),
    "worker register": ("worker register --name w", "worker register"),
    "worker deregister": ("worker deregister {worker}", "worker leave"),
    "worker stop": ("worker stop {worker}", "worker stop"),
    "scale": ("scale tag=0", "slot scale"),
    "reset": ("reset worker:tag:0", "slot reset"),
    "queue set": ("queue set default --rate 1/m", "queue set"),
    "pause": ("pause default", "queue pause"),
    "resume": ("resume closed", "queue resume"),
    "source forget": ("source forget files", "source forget"),
    "schedule add": ("schedule add other --cron '0 2 * * *' --kind k", "schedule make"),
    "schedule pause": ("schedule pause nightly", "schedule pause"),
    "schedule resume": ("schedule resume resting", "schedule resume"),
    "schedule run": ("schedule run nightly", "schedule run"),
    "schedule remove": ("schedule remove nightly", "schedule remove"),
    "token create": ("token create ci --scope read", "token create"),
    "token revoke": ("token revoke {token}", "token revoke"),
    "prune": ("prune --keep 0", "job prune"),
    "reconcile": ("reconcile", "worker die"),
    "drain": ("drain", "orchestrator drain"),
}
# What only looks.
LOOKS = {
    "show", "runs", "logs", "list", "why", "results", "wait", "worker list", "worker status",
    "orchestrator status", "top", "queue list", "source list", "source check", "schedule list", "schedule show",
    "token list", "events", "doctor", "completion", "help", "open",
}  # fmt: skip
# Programs that run on and act under a name of their own, what makes the store in the first place, a worker's sign of
# life, stores of their own, and a signal to a process.
OTHERS = {
    "run", "serve", "mcp", "demo", "chaos", "bench", "orchestrator start", "worker start", "worker exec", "init",
    "migrate", "worker heartbeat", "tracking install", "tracking uninstall", "tracking status", "tracking prune",
    "orchestrator stop",
}  # fmt: skip
# The same over HTTP, for the scopes of people; those of the scope `work` are a worker's or a crew's own.
CALLS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "POST /api/v1/jobs": ({"title": "B"}, "job add"),
    "POST /api/v1/jobs/bulk": ({"jobs": [{"title": "B"}]}, "job add"),
    "POST /api/v1/jobs/{held}/snooze": ({"delay": 60}, "job snooze"),
    "POST /api/v1/jobs/{job}/cancel": ({}, "job cancel"),
    "POST /api/v1/jobs/{over}/retry": ({}, "job retry"),
    "POST /api/v1/jobs/{job}/done": ({"force": True}, "job force"),
    "POST /api/v1/jobs/{job}/fail": ({"error": "x", "force": True}, "job force"),
    "POST /api/v1/jobs/{job}/block": ({"on": "{other}"}, "job block"),
    "POST /api/v1/jobs/{waiting}/unblock": ({"on": "{other}"}, "job unblock"),
    "POST /api/v1/workers/{worker}/stop": ({}, "worker stop"),
    "POST /api/v1/slots/worker:tag:0/reset": ({}, "slot reset"),
    "POST /api/v1/queues/pause": ({"queue": "default"}, "queue pause"),
    "POST /api/v1/queues/resume": ({"queue": "closed"}, "queue resume"),
    "PATCH /api/v1/queues/default": ({"rate": "1/m"}, "queue set"),
    "POST /api/v1/queues/tag/scale": ({"count": 0}, "slot scale"),
    "DELETE /api/v1/sources/files": (None, "source forget"),
    "POST /api/v1/schedules": ({"name": "other", "cron": "0 2 * * *", "kind": "k"}, "schedule make"),
    "DELETE /api/v1/schedules/nightly": (None, "schedule remove"),
    "POST /api/v1/schedules/nightly/pause": ({}, "schedule pause"),
    "POST /api/v1/schedules/resting/resume": ({}, "schedule resume"),
    "POST /api/v1/schedules/nightly/run": ({}, "schedule run"),
    "POST /api/v1/orchestrator/reconcile": ({}, "worker die"),
    "POST /api/v1/prune": ({"keep": 0}, "job prune"),
    "POST /api/v1/tokens": ({"name": "ci", "scopes": ["read"]}, "token create"),
    "DELETE /api/v1/tokens/{token}": (None, "token revoke"),
    "POST /api/v1/orchestrator/drain": ({}, "orchestrator drain"),
}


class Scene:
    """Something in a store for every action to act on, all of it made by somebody else; again for each action."""

    def __init__(self, shell: Shell, drained: bool) -> None:
        self.shell = shell
        with open_store(str(shell.path), Settings(), actor="scenery") as store:
            store.sources.declare([Declared("files", "tag", "tag", 30_000_000, 100, 1000, 3)])
            store.slots.take("main", host_id(), {"tag": 1})
            if drained:
                store.orchestrators.join("main")
            store.queues.set("default", rate=None)
            store.queues.resume("default")
            worker = store.workers.register("w").id
            other, job, held, over, waiting = (store.jobs.add(NewJob(title)).id for title in "ABCDE")
            store.jobs.block(waiting, other)
            store.claims.claim(held, worker)
            store.jobs.done(over, None, force=True)
            store.queues.set("closed", rate="1/m")
            store.queues.pause("closed")
            token = store.tokens.create(f"old-{worker}", ["read"])[0].id
            for name in ("nightly", "resting"):
                store.schedules.add(NewSchedule(name, "0 2 * * *", kind="k"))
            store.schedules.pause("resting")
            store.workers.register("dead", every=100_000)
            self._last = store.events.last()
        numbers = {"job": job, "other": other, "held": held, "over": over, "waiting": waiting}
        self._names: dict[str, object] = {**numbers, "worker": worker, "token": token}

    def named(self, text: str) -> str:
        return re.sub(r"{(\w+)}", lambda found: str(self._names[found[1]]), text)

    def facts(self, actor: str) -> set[str]:
        """What this actor did since, as noun and verb."""
        with open_store(str(self.shell.path), Settings()) as store:
            events = store.events.after(self._last, 1000)
        return {" ".join(to_stored(fact)[:2]) for event in events for fact in event.facts if event.actor == actor}

    def wait_for_the_dead(self) -> None:
        eventually(lambda: self.shell.ask("reconcile", "--plan")["dead_workers_found"])


def test_every_command_is_an_action_or_has_a_reason_not_to_be() -> None:
    assert {verb.name for verb in all_verbs()} == ACTIONS.keys() | LOOKS | OTHERS
    assert len(all_verbs()) == len(ACTIONS) + len(LOOKS) + len(OTHERS)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    made = Shell(tmp_path_factory.mktemp("called"))
    made.make()
    return made


@pytest.mark.parametrize("command", ACTIONS)
def test_a_command_that_changes_something_is_in_the_log_with_who_called_it(command: str, shell: Shell) -> None:
    words, fact = ACTIONS[command]
    scene = Scene(shell, drained=command == "drain")
    if command == "reconcile":
        scene.wait_for_the_dead()
    answer = shell.call(*shlex.split(scene.named(words)))
    assert fact in scene.facts(f"{getpass.getuser()}@{os.uname().nodename}"), answer


def operators_routes() -> list[str]:
    """Every route of people that is not for looking, nor for a browser's code, which the server's memory has alone."""
    return [f"{each.method} {each.path}" for each in ROUTES if each.method != "GET" and each.scope in (ADMIN, ENQUEUE)]


def shape(path: str) -> str:
    """A call without the names in it, as a route has it: what stands for a name is left out."""
    return re.sub(r"/({\w+}|worker:tag:0|default|tag|files|nightly|resting)(?=/|$)", "/*", path)


def test_every_route_of_people_that_changes_something_is_called() -> None:
    assert sorted(map(shape, CALLS)) == sorted(map(shape, operators_routes()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("served"))
    yield made
    made.end()


@pytest.mark.parametrize("call", CALLS)
def test_a_request_that_changes_something_is_in_the_log_with_whose_token_it_had(call: str, server: Server) -> None:
    body, fact = CALLS[call]
    scene = Scene(server.shell, drained="drain" in call)
    name = f"caller-{list(CALLS).index(call)}"
    client = server.client(server.token(name, "admin"))
    if "reconcile" in call:
        scene.wait_for_the_dead()
    method, path = scene.named(call).split()
    told = {name: int(scene.named(str(value))) if value == "{other}" else value for name, value in (body or {}).items()}
    answer = client.call(method, path, None if body is None else told)
    assert answer.status_code < 300 or "drain" in call, answer.text
    assert fact in scene.facts(f"{name}@http")
