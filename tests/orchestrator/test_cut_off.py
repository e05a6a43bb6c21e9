"""Three hosts and a server, each in a network of its own: one host's link is cut under load, and heals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually
from tests.support.hosts import Hosts
from tests.support.network import network
from tests.support.postgres import own, with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.network import Network

NAMES = ("north", "south", "east")
SLACK = 2.5  # seconds by which a busy machine may be late
TASKS = '''
import socket

where = socket.gethostname()


@app.task(queue="tag")
def short(n: int) -> str:
    note(f"short {n} {where} {time.monotonic()}")
    time.sleep(0.02)
    return where


def watch(name: str, ctx) -> str:
    """Beat until the test lets it go on this host, and say when the claim may be lost."""
    told = False
    while not (here / f"go-{name}-{where}").exists():
        note(f"{name} {where} {time.monotonic()}")
        if ctx.lost and not told:
            told = True
            note(f"{name}-told {where} {time.monotonic()}")
        time.sleep(0.02)
    note(f"{name}-through {where} {time.monotonic()}")
    return where


@app.task(queue="tag")
def tell(name: str, ctx) -> str:
    return watch(name, ctx)


@app.task(queue="alone")
def alone(name: str, ctx) -> str:
    return watch(name, ctx)
'''


class Country:
    """Hosts around a server, and when each of them did what."""

    def __init__(self, folder: Path, around: Network, url: str) -> None:
        self.hosts = Hosts(folder, url)
        self.crew = self.hosts.crew
        self.crew.teach(TASKS)
        self.crew.call("queue", "set", "alone", "--fence", "end")
        self.around = around
        self._url = url
        self.jobs: list[int] = []

    def start(self, name: str) -> None:
        """It has room for all that is held, and for the load beside."""
        url = with_parts(self._url, host=self.around.add(name))
        with self.around.on(name):
            self.hosts.start(name, "tag=3", "alone=1", ROTA_DB=url)

    def hold(self, kind: str, name: str) -> int:
        new = self.crew.new(kind, name=name).replace(queue="alone" if kind == "alone" else "tag")
        return self.crew.app.enqueue(new).id

    def load(self, until: float, unless: Callable[[], object] = lambda: False) -> None:
        """Add jobs all the while, so that there is always some work; `unless` ends it before its time."""
        while time.monotonic() < until and not unless():
            self.jobs += [self.crew.add("short", n=len(self.jobs) + n) for n in range(5)]
            time.sleep(0.05)

    def noticed(self) -> list[str]:
        """What was said of the link that fell silent: while a commit was under way, or not."""
        return self.crew.said("is out of reach") or self.crew.said("went away during a commit")

    def times(self, what: str, where: str) -> list[float]:
        """When this was noted on that host; the last word of a line that is just being written does not count."""
        lines = (line.split() for line in self.crew.ledger())
        return [float(line[-1]) for line in lines if (line[0], line[-2]) == (what, where) and len(line) > 2]

    def elsewhere(self, what: str) -> list[float]:
        return sorted(at for name in NAMES[1:] for at in self.times(what, name))


@pytest.fixture
def country(tmp_path: Path) -> Iterator[Country]:
    with network() as around, own(listen_addresses="*") as server:
        country = Country(tmp_path, around, server.url)
        yield country
        country.hosts.end()


def test_a_host_whose_link_is_cut_is_told_and_fenced_and_its_work_moves_on(country: Country) -> None:
    """Fault 35: told at 10 s, a fenced job ended by 12 s, all of it elsewhere within 16 s; then the link heals."""
    crew, around = country.crew, country.around
    country.start("north")
    held = {name: country.hold(kind, name) for kind, name in (("tell", "on"), ("tell", "late"), ("alone", "fenced"))}
    eventually(lambda: all(country.times(name, "north") for name in held), within=60)
    for name in NAMES[1:]:
        country.start(name)
    eventually(lambda: len(set(country.hosts.up())) == 3, within=60)
    country.load(time.monotonic() + 1)
    eventually(lambda: country.times("short", "north"), within=60)

    cut_at = time.monotonic()
    around.cut("north")
    country.load(cut_at + 11.5, unless=country.noticed)
    noticed_at = time.monotonic()
    country.load(cut_at + 11.5)
    crew.let_go("late-north")
    country.load(cut_at + 16)
    began = {name: eventually(lambda name=name: country.elsewhere(name), within=30)[0] for name in held}  # type: ignore[misc]
    assert country.noticed(), "the link fell silent, and nobody closed it"
    assert noticed_at - cut_at < 11, "fault 36: the six seconds of a link are `test_postgres_links`'s"
    assert max(began.values()) - cut_at < 16 + SLACK
    told = min(country.times("on-told", "north"))
    assert told - cut_at < 10 + SLACK
    gone = max(country.times("fenced", "north"))
    assert gone - cut_at < 12 + SLACK and gone < began["fenced"], "a fenced job never runs twice at once"
    assert max(country.times("on", "north")) > began["on"], "by default a handler goes on"

    around.heal("north")
    healed_at = time.monotonic()
    eventually(lambda: crew.said("runs elsewhere by now"), within=60)
    eventually(lambda: max(country.times("on", "north")) < time.monotonic() - 1, within=60)
    country.load(time.monotonic() + 1)
    for name in held:
        for where in NAMES[1:]:
            crew.let_go(f"{name}-{where}")
    for name, job in held.items():
        (done,) = crew.done(job)
        assert done.result in NAMES[1:], "what the host that was cut off said later is refused"
        assert [run.verb for run in crew.app.claims.runs(job)] == ["die", "finish"], name
    assert country.times("late-through", "north")
    assert crew.said("its outcome was refused"), "and it says so"
    crew.done(*country.jobs)
    for job in country.jobs:
        assert [run.verb for run in crew.app.claims.runs(job)].count("finish") == 1
    again = len(country.jobs)
    country.load(time.monotonic() + 1)
    crew.done(*country.jobs[again:])
    eventually(lambda: max(country.times("short", "north"), default=0) > healed_at, within=60)
