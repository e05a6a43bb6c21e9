"""Someone sets the wall clock while a crew works."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import children
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

# Loaded before libc, it adds the seconds in a file to whatever tells the wall clock, and leaves the other clocks alone.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char text[32] = {0};
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    long length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, at);
    if (!code && clock == CLOCK_REALTIME) at->tv_sec += shift();
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(at, zone);
    if (!code && at) at->tv_sec += shift();
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
WALL = """
@app.task(queue="tag")
def wall() -> float:
    return time.time()
"""


@pytest.fixture
def shim(tmp_path: Path) -> str:
    """The library that shifts the wall clock, compiled here."""
    (tmp_path / "shim.c").write_text(SHIM)
    library = str(tmp_path / "shim.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, str(tmp_path / "shim.c")], check=True)
    return library


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wall_clock_that_jumps_an_hour_lapses_nothing_and_restarts_nothing(crew: Crew, shim: str, hours: int) -> None:
    """Fault 32: leases and beats go on as if nothing had happened."""
    crew.teach(WALL)
    clock = crew.folder / "shift"
    clock.write_text("0")
    crew.env |= {"LD_PRELOAD": shim, "CLOCK_SHIFT": str(clock)}
    crew.start("tag=2")
    held = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    loop = crew.app.workers.register("loop", every=60_000_000, queue="other")
    by_hand = crew.app.enqueue(crew.new("tag", n=1).replace(queue="other")).id
    claim = crew.app.claims.claim(by_hand, loop.id)
    before = crew.done(crew.add("wall"))[0].result
    workers = children(crew.pid)

    clock.write_text(str(3600 * hours))
    after = crew.done(crew.add("wall"))[0].result
    assert abs(after - before - 3600 * hours) < 600, "the crew does see another time"
    renewed = pulse(crew)
    eventually(lambda: pulse(crew) > renewed)
    crew.call("reconcile")
    found = crew.app.jobs.get(held)
    assert (found.status, found.attempts, found.deaths) == ("active", 0, 0)
    assert crew.app.jobs.get(by_hand).status == "active"
    assert crew.app.workers.get(loop.id).status == "busy"
    assert crew.app.claims.renew(claim).token == claim.token
    assert children(crew.pid) == workers and crew.deaths() == []
    assert sum(slot.history.lifetime for slot in crew.app.store.slots.all()) == 0
    crew.let_go("a")
    assert crew.done(held)[0].result == pid
    assert crew.stop() == 0


def pulse(crew: Crew) -> int:
    """When the orchestrator last renewed its lease, on the store's clock."""
    at: int = crew.app.store.database.execute("orchestrator.pulse", {})[0][0]
    return at
