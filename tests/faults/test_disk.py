"""Disks that fail: a real file system that is full, syncs that the kernel refuses, a network file system."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store
from tests.support.processes import OPEN

# A mount namespace of its own: nobody else sees what is mounted there, and it is gone with the process.
ROOT = Path(__file__).parents[2]
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]

FULL = """
import os
from rota.core.claim import Done
from rota.core.errors import StoreFull
folder = sys.argv[1]
store = open_store(f"{folder}/rota.db", Settings(), make=True)
ballast = open(f"{folder}/ballast", "wb")
ballast.write(bytes(1_000_000))
ballast.flush()
added, held = [], store.claims.claim(store.jobs.add(NewJob("before")).id)
def fill():
    while True:
        added.append(store.jobs.add(NewJob("big", payload="x" * 50_000)).id)
def refused(change):
    try:
        change()
    except StoreFull as problem:
        return str(problem)
    raise AssertionError("it was accepted")
said = refused(fill)
assert refused(lambda: store.jobs.add(NewJob("big", payload="x" * 50_000))) == said
kept = sorted(job.id for job in store.jobs.list(limit=1000))
ballast.truncate(0)
ballast.flush()
store.claims.settle(held, Done())
later = store.jobs.add(NewJob("after", payload="x" * 50_000)).id
print(repr((said, kept == [held.job_id, *added], len(added), later > max(added), store.database.integrity())))
"""


def test_a_full_disk_is_told_nothing_is_acknowledged_and_with_room_it_works_again(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=3m none "$1" && exec "$2" -c "$3" "$1"'
    words = [*UNSHARE, "sh", "-c", script, "sh", str(tmp_path), sys.executable, OPEN + FULL]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    said, all_kept, count, works, integrity = literal_eval(ran.stdout)
    assert said == f"the disk of {tmp_path}/rota.db is full: nothing was changed; make room and try again"
    assert all_kept, "what was acknowledged is there, and nothing else"
    assert count > 10 and works and integrity == "ok"


CREW = '''
import pathlib
from tests.support.crews import Crew, children
from tests.support.eventually import eventually
BIG = """
@app.task(queue="tag")
def big(name: str) -> str:
    hold(name)
    return name * 200_000
"""
folder, small = map(pathlib.Path, sys.argv[1:])
crew = Crew(folder, ROTA_DB=f"{small}/rota.db")
try:
    crew.teach(BIG)
    crew.start("tag=2")
    ids = [crew.add("big", name=name) for name in "ab"] + [crew.add("tag", n=n) for n in range(20)]
    eventually(lambda: crew.held_by("a") and crew.held_by("b"))
    workers = children(crew.pid)
    with open(small / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass
        for name in "ab":
            crew.let_go(name)
        eventually(lambda: crew.said("is full"))
        assert [crew.app.jobs.get(id).status for id in ids[:2]] == ["active"] * 2, "nothing is half there"
        ballast.truncate(0)
    crew.done(*ids)
    assert [crew.app.jobs.get(id).result for id in ids[:2]] == ["a" * 200_000, "b" * 200_000]
    assert [[run.verb for run in crew.app.claims.runs(id)] for id in ids] == [["finish"]] * 22
    assert len(crew.ledger()) == 22, "each ran once"
    assert children(crew.pid) == workers and crew.deaths() == []
    assert crew.stop() == 0
    assert crew.app.store.database.integrity() == "ok"
finally:
    crew.end()
'''


def test_a_crew_whose_disk_is_full_waits_with_its_outcomes_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=3m none "$2" && exec "$3" -c "$4" "$1" "$2"'
    words = [*UNSHARE, "sh", "-c", script, "sh", str(tmp_path), str(small), sys.executable, OPEN + CREW]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, (ran.stderr, (tmp_path / "log").read_text())


PRUNED = """
import os, subprocess
from rota.core.claim import Done
from rota.core.errors import StoreFull
folder = sys.argv[1]
path = f"{folder}/rota.db"
store = open_store(path, Settings(), make=True)
def big():
    return store.jobs.add(NewJob("big", payload="x" * 50_000)).id
def fill():
    try:
        while True:
            store.claims.settle(store.claims.claim(big()), Done())
    except StoreFull:
        pass
fill()
with open(f"{folder}/ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(512))
    except OSError:
        pass
count = len(store.jobs.list("done", limit=1000))
words = [sys.executable, "-m", "rota", "--db", path, "prune", "--older", "0.001s"]
ran = subprocess.run(words, capture_output=True, text=True)
size = os.path.getsize(path)
room = os.statvfs(folder)
later = [big() for _ in range(count // 2)]
print(repr((ran.returncode, ran.stdout + ran.stderr, count, size, room.f_bavail * room.f_frsize, len(later),
    os.path.exists(f"{path}.reserve"), store.database.integrity())))
"""


def test_on_a_full_disk_prune_makes_room_and_gives_it_back(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=12m none "$1" && exec "$2" -c "$3" "$1"'
    words = [*UNSHARE, "sh", "-c", script, "sh", str(tmp_path), sys.executable, OPEN + PRUNED]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    code, said, count, size, room, later, has_reserve, integrity = literal_eval(ran.stdout)
    assert code == 0 and said.startswith(f"forgot {count} jobs"), said
    assert count > 50 and size < 1_500_000 and room > 2_000_000, "the disk has its room again"
    assert later == count // 2 and has_reserve and integrity == "ok"


# Each acknowledged id is on the pipe before the next change begins. Payloads of this size make checkpoints happen too.
WRITE = """
from rota.core.claim import Done
from rota.core.errors import RotaError
from rota.store.sqlite import database
database.CHECKPOINT_PAGES = 60
try:
    store = open_store(sys.argv[1], Settings())
    for n in range(4):
        id = store.jobs.add(NewJob("a job", payload="x" * 100_000)).id
        print("added", id, flush=True)
        store.claims.settle(store.claims.claim(id), Done())
        print("done", id, flush=True)
except RotaError as problem:
    print("refused", problem, flush=True)
"""
SYNCS = "fdatasync,fsync"


def written(folder: Path, path: str, *inject: str) -> tuple[list[list[str]], list[str]]:
    """What the program said, and the syncs that it made."""
    log = folder / "syncs"
    words = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={SYNCS}", *inject, sys.executable, "-c", OPEN + WRITE]
    ran = subprocess.run([*words, path], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return [line.split(" ", 2) for line in ran.stdout.splitlines()], log.read_text().splitlines()


def test_a_sync_that_fails_whichever_it_is_is_told_and_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    def fresh(name: str) -> str:
        path = str(tmp_path / f"{name}.db")
        open_store(path, Settings(), make=True).close()
        return path

    said, syncs = written(tmp_path, fresh("whole"))
    assert [word for word, *_ in said] == ["added", "done"] * 4
    assert len(syncs) > 12, "every commit is synced, and every checkpoint"
    kind = syncs[0].split("(")[0].split()[-1]
    assert all(f"{kind}(" in line for line in syncs), "counted by kind"
    refusals = []
    for number in range(1, len(syncs) + 1):
        path = fresh(f"fails-{number}")
        said, seen = written(tmp_path, path, "-e", f"inject={kind}:error=EIO:when={number}")
        assert sum("INJECTED" in line for line in seen) == 1
        refusals += [line for line in said if line[0] == "refused"]
        with open_store(path, Settings()) as store:
            assert store.database.integrity() == "ok"
            states = {job.id: job.status for job in store.jobs.list()}
            for word, id, *_ in said:
                if word != "refused":
                    assert int(id) in states, f"job {id} was acknowledged, and sync {number} lost it"
                if word == "done":
                    assert states[int(id)] == "done", f"job {id} was settled, and sync {number} lost that"
            assert set(states.values()) <= {"ready", "active", "done"}, "nothing is half there"
            assert store.jobs.add(NewJob("after")).id
    assert len(refusals) >= 8, "most syncs are commits', whose failure is told"
    assert all("check the disk; what was acknowledged is kept" in " ".join(line) for line in refusals), refusals


# A file system of the kind that sshfs mounts, which answers for its root folder, and for a file if it is to have one.
FUSE = """
import ctypes, os, struct, threading
from rota.core.errors import StoreError
folder, has_file = sys.argv[1], sys.argv[2:] == ["file"]
device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
if libc.mount(b"far", folder.encode(), b"fuse.sshfs", 6, options):
    raise OSError(ctypes.get_errno(), "mount")
def serve():
    while True:
        asked = os.read(device, 1 << 17)
        _, code, unique = struct.unpack_from("=IIQ", asked)
        error, body = 0, b""
        if code == 1 and has_file:
            body = struct.pack("=4Q2I6Q10I", 2, 0, 60, 60, 0, 0, 2, *[0] * 8, 0o100600, 1, *[0] * 3, 4096, 0)
        elif code == 26:
            body = struct.pack("=IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0)
        elif code == 3:
            body = struct.pack("=QIIQQQQQQIIIIIIIIII", 60, *[0] * 2, 1, *[0] * 8, 0o40700, 2, *[0] * 3, 4096, 0)
        else:
            error = -38
        os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
threading.Thread(target=serve, daemon=True).start()
try:
    open_store(f"{folder}/rota.db", Settings(), make=True)
    print("it was made", flush=True)
except StoreError as problem:
    print(problem, flush=True)
libc.umount2(folder.encode(), 2)
os._exit(0)
"""


@pytest.mark.parametrize("there", [[], ["file"]], ids=["made", "opened"])
def test_on_a_network_file_system_no_database_is_made_or_opened(tmp_path: Path, there: list[str]) -> None:
    words = [*UNSHARE, sys.executable, "-c", OPEN + FUSE, str(tmp_path), *there]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == (
        f"{tmp_path} is on a network file system (fuse.sshfs), where SQLite cannot lock safely: use a local folder"
    )
    assert os.listdir(tmp_path) == []
